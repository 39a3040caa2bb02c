"""Conversion of times, spans, sizes and fractions from the user's notation to numbers."""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta
from typing import Optional, Union

Time = Union[datetime, int]
"""A point in time: a ``datetime`` with a time zone, or milliseconds since 1970."""
Span = Union[timedelta, str]
"""A length of time: a ``timedelta``, or a text such as ``"5min"``, ``"3h"``, ``"1d"``."""
Size = Union[int, str]
"""An amount of memory: bytes, or a text such as ``"16 GiB"`` or ``"800 MiB"``."""

_MS_MAX = 1 << 50
_BYTES_MAX = 1 << 60
_SPANS_MS = {"ms": 1, "s": 1_000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _time_ms(when: Optional[Time], default: int) -> int:
    if when is None:
        return default
    if isinstance(when, datetime):
        if when.tzinfo is None:
            raise ValueError(f"{when} has no time zone: use datetime(..., tzinfo=timezone.utc)")
        return round(when.timestamp() * 1000)
    if not _is_int(when):
        raise TypeError(f"{when!r} is not a time: use a datetime, or milliseconds since 1970")
    if abs(when) > _MS_MAX:
        raise ValueError(f"{when} is out of range: use milliseconds since 1970")
    return when


def between(
    start: Optional[Time],
    end: Optional[Time],
    first: int = -_MS_MAX,
    last: int = _MS_MAX,
) -> tuple[int, int]:
    """Returns the start and the end of a time span, in milliseconds since 1970."""
    from_ms, to_ms = _time_ms(start, first), _time_ms(end, last)
    if start is not None and end is not None and from_ms > to_ms:
        raise ValueError(f"the time ends before it begins: start is {start}, end is {end}")
    return from_ms, to_ms


def span_ms(span: Span, what: str) -> int:
    """Converts a length of time to milliseconds, at least one."""
    if isinstance(span, timedelta):
        ms = round(span.total_seconds() * 1000)
    elif isinstance(span, str):
        found = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*([a-z]+)\s*", span)
        if found is None or found[2] not in _SPANS_MS:
            raise ValueError(f"{what} is {span!r}: use a time such as 5min, 3h or 1d")
        ms = round(float(found[1]) * _SPANS_MS[found[2]])
    else:
        raise TypeError(f"{what} is {span!r}: use a timedelta, or a text such as '5min'")
    if not 1 <= ms <= _MS_MAX:
        raise ValueError(f"{what} is {span!r}: use a time such as 5min, 3h or 1d")
    return ms


def size_bytes(size: Optional[Size], what: str) -> Optional[int]:
    """Converts an amount of memory to bytes, at least one."""
    if size is None:
        return None
    if isinstance(size, str):
        found = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{1,9})?)\s*(B|KiB|MiB|GiB|TiB)\s*", size)
        if found is None:
            raise ValueError(f"{what} is {size!r}: use a size such as 800 MiB or 16 GiB")
        size = round(float(found[1]) * _SIZES[found[2]])
    elif not _is_int(size):
        raise TypeError(f"{what} is {size!r}: use bytes, or a text such as '16 GiB'")
    if not 1 <= size <= _BYTES_MAX:
        raise ValueError(f"{what} is {size} bytes: use a size such as 800 MiB or 16 GiB")
    return size


def permille(part: float, what: str, most: float = 1.0) -> int:
    """Converts a fraction to thousandths."""
    if isinstance(part, (bool, str)) or not isinstance(part, (int, float)):
        raise TypeError(f"{what} is {part!r}: use a fraction from 0 to {most:g}, such as 0.1")
    if not 0 <= part <= most:
        raise ValueError(f"{what} is {part}: use a fraction from 0 to {most:g}, such as 0.1")
    whole = round(part * 1000)
    if abs(part * 1000 - whole) > 1e-6:
        raise ValueError(f"{what} is {part}: use whole thousandths, such as {whole / 1000:g}")
    return whole


def path_text(path: Union[str, os.PathLike[str]]) -> str:
    """Returns the path of a directory or a file as text."""
    text = os.fspath(path)
    if not isinstance(text, str) or not text:
        raise ValueError(f"{path!r} is not the path of a directory or a file")
    return text
