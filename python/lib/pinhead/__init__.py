"""Recordings of pinhead as Arrow tables, and what would have happened with another policy.

>>> import pinhead
>>> past = pinhead.Recording("/var/lib/pinhead/recordings")
>>> past.guests(every="1min", fields=["resident_bytes"]).to_pandas()
>>> pinhead.replay(past, policy="proxmox").guests
>>> pinhead.size(past).guests

Units: what ends in ``_bytes`` is bytes, ``_ns`` nanoseconds, ``_ms`` milliseconds, ``_permille``
thousandths; each column of a recording has its unit, its source and what it is in its metadata.
Times are ``datetime`` with a time zone, or milliseconds since 1970.
"""

from ._native import Error
from ._recording import Recording
from ._sweep import SWEEP_SCHEMA, WorkerLost, sweep
from ._whatif import Fit, Replayed, Run, Sizes, World, fit, replay, simulate, size

__all__ = [
    "SWEEP_SCHEMA",
    "Error",
    "Fit",
    "Recording",
    "Replayed",
    "Run",
    "Sizes",
    "WorkerLost",
    "World",
    "fit",
    "replay",
    "simulate",
    "size",
    "sweep",
]
