"""What would have happened: recorded passes played again, and sizes by what was recorded."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from typing import Any, Optional, Sequence, Union

import pyarrow as pa

from . import _native
from ._recording import Recording
from ._units import Size, Span, Time, between, path_text, permille, size_bytes, span_ms

_TIME = pa.timestamp("ms", tz="UTC")
SUMS = [
    ("had_byte_seconds", pa.float64()),
    ("resident_byte_seconds", pa.float64()),
    ("unmet_byte_seconds", pa.float64()),
    ("short_s", pa.uint64()),
    ("grows", pa.uint64()),
    ("shrinks", pa.uint64()),
]
"""What is summed up of guests over a time."""
_GUESTS = pa.schema([("guest", pa.string()), ("there_s", pa.uint64()), *SUMS])
_DECISIONS = pa.schema(
    [
        ("at_ms", pa.int64()),
        ("guest", pa.string()),
        ("action", pa.string()),
        ("clause", pa.string()),
        ("from_bytes", pa.uint64()),
        ("to_bytes", pa.uint64()),
        ("moves", pa.bool_()),
        ("reason", pa.string()),
    ]
)
_RULES = [
    ("rule", pa.string()),
    ("size_bytes", pa.uint64()),
    ("judged_minutes", pa.uint64()),
    ("slack_permille", pa.uint64()),
    ("short_minutes", pa.uint64()),
    ("short_bytes_minutes", pa.uint64()),
]
_SIZES = pa.schema(
    [
        ("guest", pa.string()),
        ("uuid", pa.string()),
        ("class", pa.string()),
        ("verdict", pa.string()),
        ("known_s", pa.uint64()),
        ("has_bytes", pa.uint64()),
        ("size_bytes", pa.uint64()),
        ("lower_bytes", pa.uint64()),
        ("upper_bytes", pa.uint64()),
        ("minimum_bytes", pa.uint64()),
        ("vcpus", pa.uint64()),
        ("cpus", pa.uint64()),
        ("cpus_lower", pa.uint64()),
        ("cpus_upper", pa.uint64()),
        ("shares", pa.uint64()),
        ("short_minutes", pa.uint64()),
        ("oom_kills", pa.uint64()),
    ]
)

Where = Union[Recording, str, "os.PathLike[str]"]
"""Recordings: a :class:`Recording`, or their directory."""


def _path(where: Where) -> str:
    return str(where.path) if isinstance(where, Recording) else path_text(where)


@dataclass(frozen=True)
class World:
    """Another world than the one that was recorded. By default it is the same."""

    policy: Optional[str] = None
    """By whose rules memory is moved: ``pinhead``, ``mom``, ``proxmox``, ``pi``, ``senpai``,
    ``reporting``, ``none``, or a file of the manager's settings."""
    host: Optional[Size] = None
    """The memory of the host, or what guests may use together: bytes, or ``"16 GiB"``."""
    growth: float = 0.0
    """So much more than they used does each guest use, as a part of it: 0.03 is 3 %."""
    more: int = 0
    """So many more guests like those of ``like``, which do at each moment what they did."""
    like: Optional[str] = None
    """A pattern of guests' names, such as ``web*``."""

    def _arguments(self) -> tuple[Optional[str], Optional[int], int, Optional[tuple[int, str]]]:
        if bool(self.more) != (self.like is not None):
            raise ValueError("more says how many guests, like says which: World(more=20, like='web*')")
        if not 0 <= self.more <= 10_000:
            raise ValueError(f"more is {self.more}: say a number up to 10000")
        more = (self.more, str(self.like)) if self.more else None
        growth = permille(self.growth, "growth", most=10.0)
        return self.policy, size_bytes(self.host, "host"), growth, more


@dataclass(frozen=True)
class Run:
    """What came of one way to play."""

    policy: str
    """By whose rules; ``recorded`` is as it was."""
    totals: dict[str, Any]
    """Sums over all guests: what they had and what of it was in the host (bytes times seconds),
    what they needed and did not have (the same) and for how long (s), and moves up and down."""
    host: dict[str, Any]
    """The host's free memory: mean and least (bytes), and how long it was below its set point and
    its reserve (s)."""
    passes: int
    """So many passes were played."""
    missing: int
    """So many were made and not recorded."""
    guests: pa.Table
    """The sums of each guest."""
    decisions: Optional[pa.Table]
    """What was decided, if that was asked for: ``at_ms`` in milliseconds since 1970."""

    @staticmethod
    def _of(document: dict[str, Any], decisions: Optional[str]) -> "Run":
        rows = None if decisions is None else json.loads(decisions)
        return Run(
            policy=document["policy"],
            totals=document["total"],
            host=document["host"],
            passes=document["passes"],
            missing=document["missing"],
            guests=pa.Table.from_pylist(document["guests"], schema=_GUESTS),
            decisions=None if rows is None else pa.Table.from_pylist(rows, schema=_DECISIONS),
        )


@dataclass(frozen=True)
class Replayed:
    """What was recorded, and another world beside it."""

    recorded: Run
    """As it was."""
    agreement: Optional[dict[str, int]]
    """How many of the journal's decisions came out again: ``decisions`` and ``same``, ``moves``
    and ``same_moves``. ``None`` without a journal that has any of the time."""
    other: Optional[Run]
    """The other world; ``None`` if nothing was to be different."""

    @property
    def guests(self) -> pa.Table:
        """The sums of each guest in both, one below the other, with ``policy`` first."""
        runs = [run for run in (self.recorded, self.other) if run is not None]
        tables = [
            run.guests.add_column(0, "policy", pa.array([run.policy] * len(run.guests), pa.string()))
            for run in runs
        ]
        return pa.concat_tables(tables)


def replay(
    recording: Where,
    policy: Optional[str] = None,
    *,
    start: Optional[Time] = None,
    end: Optional[Time] = None,
    host: Optional[Size] = None,
    journal: Optional[Union[str, "os.PathLike[str]"]] = None,
    decisions: bool = False,
) -> Replayed:
    """Decides recorded passes again: as they were, and by another policy or on another host.

    ``host`` is bytes or ``"16 GiB"``. With a ``journal`` (the manager's ``journal.db``) it is seen
    how many of its decisions come out again. ``decisions`` keeps what was decided.
    """
    world = World(policy=policy, host=host)
    return _play(recording, world, start, end, journal, decisions)


def simulate(
    recording: Where,
    world: World,
    *,
    start: Optional[Time] = None,
    end: Optional[Time] = None,
    decisions: bool = False,
) -> Replayed:
    """Plays another world beside the one that was recorded."""
    if not isinstance(world, World):
        raise TypeError(f"{world!r} is no world: say World(host=..., growth=..., more=...)")
    if world._arguments() == World()._arguments():
        raise ValueError("say what is to be different: World(host=..., growth=..., more=...)")
    return _play(recording, world, start, end, None, decisions)


def _play(
    recording: Where,
    world: World,
    start: Optional[Time],
    end: Optional[Time],
    journal: Optional[Union[str, "os.PathLike[str]"]],
    decisions: bool,
) -> Replayed:
    policy, host, growth, more = world._arguments()
    text, ours, theirs = _native.replay(
        _path(recording),
        *between(start, end),
        None if journal is None else path_text(journal),
        policy,
        host,
        growth,
        more,
        decisions,
    )
    document = json.loads(text)
    other = document["other"]
    return Replayed(
        recorded=Run._of(document["recorded"], ours),
        agreement=document["agreement"],
        other=None if other is None else Run._of(other, theirs),
    )


@dataclass(frozen=True)
class Fit:
    """How many more guests fit, until a need is not met that was met."""

    count: int
    """So many more."""
    is_bound: bool
    """Whether more than that were not tried."""


def fit(
    recording: Where,
    like: str,
    world: World = World(),
    *,
    start: Optional[Time] = None,
    end: Optional[Time] = None,
) -> Fit:
    """How many more guests like those of a pattern fit into a world."""
    policy, host, growth, more = world._arguments()
    if more is not None:
        raise ValueError("how many more is what is asked: a world with more cannot be searched")
    text = _native.fit(_path(recording), *between(start, end), like, policy, host, growth)
    found = json.loads(text)
    return Fit(count=found["count"], is_bound=found["is_bound"])


@dataclass(frozen=True)
class Sizes:
    """How large guests should be."""

    guests: pa.Table
    """A row a guest: what it has, the size that it should have with its bounds, the least that it
    should keep (bytes), CPUs, and how often it was short."""
    rules: pa.Table
    """Each rule for each guest (``guest`` is empty for all together), fitted on the first two
    thirds of the time and judged by the last: what is left unused (``slack_permille``), and for
    how long and by how much it was too small."""
    sizes_bytes: int
    """All sizes together."""
    needed_at_once_bytes: int
    """And the most that was needed at once: peaks do not coincide."""


def size(
    recording: Where,
    guests: Sequence[str] = (),
    *,
    start: Optional[Time] = None,
    end: Optional[Time] = None,
    percentile: float = 0.999,
    headroom: float = 0.1,
    enough: Span = "1h",
) -> Sizes:
    """How large guests should be, by what was recorded of them.

    ``guests`` are names or patterns such as ``web*``. A guest is to have what it needed in
    ``percentile`` of its minutes, and ``headroom`` of it more, both as parts of one. With less
    history than ``enough`` nothing is said of a guest's size. Without ``start`` and ``end`` all that
    is recorded is looked at: by the minute, or by the quarter of an hour where that is more than
    three days. Of more than 200 days say which.
    """
    if isinstance(guests, str):
        raise TypeError(f"guests is a list: say [{guests!r}]")
    path = _path(recording)
    # The minute that is running is not among what is known to be there.
    now_ms = round(time.time() * 1000)
    first, last = _native.extent(path) or (now_ms - 60_000, now_ms)
    document = json.loads(
        _native.size(
            path,
            *between(start, end, first, last + 60_000),
            list(guests),
            permille(percentile, "percentile"),
            permille(headroom, "headroom"),
            span_ms(enough, "enough"),
        )
    )
    rules = [{"guest": "", **rule} for rule in document["rules"]]
    rows = []
    for one in document["guests"]:
        rules.extend({"guest": one["guest"], **rule} for rule in one["rules"])
        memory, cpus = one["memory_bytes"] or {}, one["cpus"] or {}
        rows.append(
            {
                **one,
                "size_bytes": memory.get("size"),
                "lower_bytes": memory.get("lower"),
                "upper_bytes": memory.get("upper"),
                "cpus": cpus.get("size"),
                "cpus_lower": cpus.get("lower"),
                "cpus_upper": cpus.get("upper"),
            }
        )
    return Sizes(
        guests=pa.Table.from_pylist(rows, schema=_SIZES),
        rules=pa.Table.from_pylist(rules, schema=pa.schema([("guest", pa.string()), *_RULES])),
        sizes_bytes=document["sizes_bytes"],
        needed_at_once_bytes=document["needed_at_once_bytes"],
    )
