"""A recording of ten real guests, for all tests."""

import shutil
import tarfile
from pathlib import Path

import pytest

from pinhead import Recording

KEPT = Path(__file__).parent / "data" / "ten-guests.tar.gz"


@pytest.fixture(scope="session")
def taken(tmp_path_factory):
    """The output of ``pinhead record export``: the recordings, and the journal next to them."""
    into = tmp_path_factory.mktemp("taken")
    with tarfile.open(KEPT) as archive:
        archive.extractall(into, filter="data")
    return into


@pytest.fixture
def recording(taken):
    return Recording(taken / "recordings")


@pytest.fixture
def own(taken, tmp_path):
    """A copy that a test may change."""
    shutil.copytree(taken, tmp_path / "own")
    return tmp_path / "own"
