"""Simulation of many worlds over many recordings."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Iterable, Optional

import pyarrow as pa

from ._engines import ENGINES, WorkerLost
from ._units import Time, between, size_bytes
from ._whatif import SUMS, Where, World, _path, simulate

__all__ = ["SWEEP_SCHEMA", "WorkerLost", "sweep"]

SWEEP_SCHEMA = pa.schema(
    [
        ("recording", pa.string()),
        ("policy", pa.string()),
        ("host_bytes", pa.uint64()),
        ("growth", pa.float64()),
        ("more", pa.uint32()),
        ("like", pa.string()),
        ("passes", pa.uint64()),
        ("missing", pa.uint64()),
        *SUMS,
        ("mean_available_bytes", pa.uint64()),
        ("least_available_bytes", pa.uint64()),
        ("below_set_point_s", pa.uint64()),
        ("below_reserve_s", pa.uint64()),
    ]
)
"""Columns of :func:`sweep`: the recording and the world, the results for all guests together, and
the results for the host. ``growth`` is a fraction. ``host_bytes`` is null for an unchanged host."""


@dataclass(frozen=True)
class Job:
    """One world, simulated over one recording."""

    recording: str
    world: World
    start: Optional[Time]
    end: Optional[Time]


def sweep(
    recordings: Iterable[Where],
    policies: Iterable[str],
    worlds: Iterable[World] = (World(),),
    *,
    start: Optional[Time] = None,
    end: Optional[Time] = None,
    engine: str = "process",
    workers: Optional[int] = None,
    tries: int = 3,
) -> pa.Table:
    """Simulates each policy in each world over each recording. Returns a row for each simulation,
    with the columns of :data:`SWEEP_SCHEMA`. Rows are sorted by recording, policy and world, each
    in the order of its argument.

    ``engine`` is ``process`` (processes of this machine) or ``ray`` (the cluster that ``ray.init``
    has connected, which must see the recordings under the same paths). Both return the same table,
    byte for byte. At most ``workers`` processes run at once, by default one for each CPU. If a
    worker dies, its job is repeated. If ``tries`` workers die at a job, :class:`WorkerLost` is
    raised. Each process is new and imports the calling script. The script therefore needs
    ``if __name__ == "__main__":``, as always with Python's ``multiprocessing``.
    """
    if engine not in ENGINES:
        raise ValueError(f"there is no engine {engine!r}: use one of {', '.join(ENGINES)}")
    for name, count in (("workers", workers), ("tries", tries)):
        if count is not None and count < 1:
            raise ValueError(f"{name} is {count}: use a number of at least 1")
    between(start, end)
    paths = [_path(recording) for recording in _each(recordings, "recordings")]
    names = _each(policies, "policies")
    others = _each(worlds, "worlds")
    for world in others:
        if world.policy is not None:
            raise ValueError(f"{world} has a policy of its own: policies go into the argument `policies`")
    jobs = [
        Job(path, replace(world, policy=policy), start, end)
        for path in paths
        for policy in names
        for world in others
    ]
    if not jobs:
        return SWEEP_SCHEMA.empty_table()
    rows = ENGINES[engine](_row, jobs, workers, tries)
    return pa.Table.from_pylist(rows, schema=SWEEP_SCHEMA)


def _each(values: Iterable[Any], name: str) -> list[Any]:
    if isinstance(values, (str, bytes, World)) or not isinstance(values, Iterable):
        raise TypeError(f"`{name}` must be a list: use [{values!r}]")
    return list(values)


def _row(job: Job) -> dict[str, Any]:
    world = job.world
    run = simulate(job.recording, world, start=job.start, end=job.end).other
    assert run is not None, "a world with a policy is another one"
    return {
        # A path may contain bytes that are not text.
        "recording": os.fsencode(job.recording).decode(errors="replace"),
        "policy": world.policy,
        "host_bytes": size_bytes(world.host, "host"),
        "growth": world.growth,
        "more": world.more,
        "like": world.like,
        "passes": run.passes,
        "missing": run.missing,
        **run.totals,
        **run.host,
    }
