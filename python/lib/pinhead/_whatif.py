"""What-if questions: simulations of recorded passes, and recommended sizes of guests."""

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
"""Columns with sums over a time span, of one guest or of all."""
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
    """Changes of the recorded world. The default changes nothing."""

    policy: Optional[str] = None
    """Policy that moves memory: ``pinhead``, ``mom``, ``proxmox``, ``pi``, ``senpai``,
    ``reporting``, ``none``, or a settings file of the manager."""
    host: Optional[Size] = None
    """Memory of the host, or of all guests together: bytes, or ``"16 GiB"``."""
    growth: float = 0.0
    """Growth of each guest's use of memory, as a fraction: 0.03 is 3 %."""
    more: int = 0
    """Number of additional guests, with the recorded load of the guests of ``like``."""
    like: Optional[str] = None
    """Pattern of guest names, such as ``web*``."""

    def _arguments(self) -> tuple[Optional[str], Optional[int], int, Optional[tuple[int, str]]]:
        if bool(self.more) != (self.like is not None):
            raise ValueError("`more` and `like` belong together: World(more=20, like='web*')")
        if not 0 <= self.more <= 10_000:
            raise ValueError(f"`more` is {self.more}: use a number from 0 to 10000")
        more = (self.more, str(self.like)) if self.more else None
        growth = permille(self.growth, "growth", most=10.0)
        return self.policy, size_bytes(self.host, "host"), growth, more


@dataclass(frozen=True)
class Run:
    """Results of one simulation."""

    policy: str
    """Policy of the simulation; ``recorded`` without a change."""
    totals: dict[str, Any]
    """Sums over all guests: memory and its resident part (bytes times seconds), unmet need (bytes
    times seconds) and its duration (s), and the numbers of moves up and down."""
    host: dict[str, Any]
    """Free memory of the host: mean and minimum (bytes), and the times below its set point and
    below its reserve (s)."""
    passes: int
    """Number of simulated passes."""
    missing: int
    """Number of passes that were made, but not recorded."""
    guests: pa.Table
    """The sums of each guest."""
    decisions: Optional[pa.Table]
    """Decisions, if requested. ``at_ms`` is in milliseconds since 1970."""

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
    """The replayed recording, and another world for comparison."""

    recorded: Run
    """The recording without a change."""
    agreement: Optional[dict[str, int]]
    """Comparison with the journal. ``decisions`` counts the journal's decisions, and ``same`` the
    decisions among them that the replay repeats. ``moves`` and ``same_moves`` count only the
    decisions that move memory. ``None`` if no journal covers a part of the time."""
    other: Optional[Run]
    """The other world; ``None`` if nothing was changed."""

    @property
    def guests(self) -> pa.Table:
        """Returns the sums of each guest in both worlds. The first column is ``policy``."""
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
    """Repeats recorded decisions: unchanged, and by another policy or on another host.

    ``host`` is bytes or ``"16 GiB"``. With a ``journal`` (the manager's ``journal.db``), the
    repeated decisions are compared with it. ``decisions`` adds all decisions to the result.
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
    """Simulates another world, and compares it with the recorded world."""
    if not isinstance(world, World):
        raise TypeError(f"{world!r} is not a world: use World(host=..., growth=..., more=...)")
    if world._arguments() == World()._arguments():
        raise ValueError("the world has no change: use World(host=..., growth=..., more=...)")
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
    """Number of additional guests that fit. One more guest would leave a met need unmet."""

    count: int
    """Number of additional guests."""
    is_bound: bool
    """True if ``count`` is the limit of the search, so that more guests may fit."""


def fit(
    recording: Where,
    like: str,
    world: World = World(),
    *,
    start: Optional[Time] = None,
    end: Optional[Time] = None,
) -> Fit:
    """Returns the number of additional guests, like those of a pattern, that fit into a world."""
    policy, host, growth, more = world._arguments()
    if more is not None:
        raise ValueError("fit finds the number of guests itself: use a world without `more`")
    text = _native.fit(_path(recording), *between(start, end), like, policy, host, growth)
    found = json.loads(text)
    return Fit(count=found["count"], is_bound=found["is_bound"])


@dataclass(frozen=True)
class Sizes:
    """Recommended sizes of guests."""

    guests: pa.Table
    """A row for each guest: its size, the recommended size with its bounds, the recommended minimum
    (all in bytes), CPUs, and the number of minutes with a shortage."""
    rules: pa.Table
    """A row for each rule and guest; ``guest`` is empty for all guests together. A rule is fitted
    on the first two thirds of the time, and judged by the last third. The columns are the unused
    part (``slack_permille``), and how long and by how much the size was too small."""
    sizes_bytes: int
    """Sum of all sizes."""
    needed_at_once_bytes: int
    """Largest total need of all guests at one time. This is less than the sum of the guests' peaks,
    because the peaks do not coincide."""


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
    """Recommends sizes of guests from recordings.

    ``guests`` are names or patterns such as ``web*``. A size covers the guest's need in a part of
    its minutes (``percentile``), plus a part of this need (``headroom``). Both parts are fractions.
    A guest with less history than ``enough`` gets no size. Without ``start`` and ``end`` the whole
    recording is analysed: by the minute, or by the quarter of an hour if it exceeds three days. A
    time of more than 200 days is refused.
    """
    if isinstance(guests, str):
        raise TypeError(f"`guests` must be a list: use [{guests!r}]")
    path = _path(recording)
    # The extent does not include the current minute.
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
