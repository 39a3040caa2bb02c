"""Recordings as tables."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Iterable, Optional, Sequence, Union

import pyarrow as pa
import pyarrow.parquet as pq

from . import _native
from ._units import Span, Time, between, path_text, span_ms

PARTS = ("host", "guests", "tiers", "processes")
"""Parts of a recording. Each part has a table."""

_TIME = pa.timestamp("ms", tz="UTC")


class Recording:
    """The recordings in a directory of ``pinhead host``, or in a directory that ``pinhead record
    import`` has made of an export.

    Rows begin at round times: with ``every="5min"`` at 12:00, 12:05 and so on. The first row
    contains ``start``. By default, minutes are kept for three days, and quarters of an hour after
    that. For such an older time, ``every`` must be 15 minutes or a multiple. A step without data
    has no row in the tables of guests, tiers and processes. In the host's table the row of such a
    step covers 0 ms. An unknown value is null, never 0.
    """

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self.path = Path(path_text(path))
        _native.extent(str(self.path))

    def __repr__(self) -> str:
        return f"Recording({str(self.path)!r})"

    def extent(self) -> Optional[tuple[datetime, datetime]]:
        """Returns the start of the first row and the end of the last, without the current minute.
        Returns ``None`` without data. A row of a quarter of an hour may begin before its data."""
        found = _native.extent(str(self.path))
        if found is None:
            return None
        first, last = (datetime.fromtimestamp(ms / 1000, timezone.utc) for ms in found)
        return first, last

    def gaps(self, start: Optional[Time] = None, end: Optional[Time] = None) -> pa.Table:
        """Returns the times without data within the recording: ``from``, ``to`` and ``reason``. The
        reason is ``restart``, ``late``, or ``lost`` for data that could not be written."""
        found = _native.gaps(str(self.path), *between(start, end))
        froms, tos, reasons = zip(*found) if found else ((), (), ())
        columns = [pa.array(froms, _TIME), pa.array(tos, _TIME), pa.array(reasons, pa.string())]
        return pa.table(columns, names=["from", "to", "reason"])

    def guests(
        self,
        start: Optional[Time] = None,
        end: Optional[Time] = None,
        *,
        every: Span = "1min",
        fields: Optional[Sequence[str]] = None,
    ) -> pa.Table:
        """Returns a row for each guest and step: ``time`` (start of the step), ``guest``, ``uuid``,
        ``class``, ``covered_ms`` (time with data), and the fields. The value of a counter is its
        increase in the step, and the value of a gauge is its mean."""
        return self.table("guests", start, end, every=every, fields=fields)

    def host(
        self,
        start: Optional[Time] = None,
        end: Optional[Time] = None,
        *,
        every: Span = "1min",
        fields: Optional[Sequence[str]] = None,
    ) -> pa.Table:
        """Returns a row for each step: ``time``, ``covered_ms``, and the fields of the host."""
        return self.table("host", start, end, every=every, fields=fields)

    def table(
        self,
        part: str,
        start: Optional[Time] = None,
        end: Optional[Time] = None,
        *,
        every: Span = "1min",
        fields: Optional[Sequence[str]] = None,
    ) -> pa.Table:
        """Returns a part (``host``, ``guests``, ``tiers`` or ``processes``) in steps of whole
        minutes. For shorter steps see :meth:`samples`."""
        return self._read(part, start, end, span_ms(every, "every"), fields)

    def samples(
        self,
        part: str = "guests",
        start: Optional[Time] = None,
        end: Optional[Time] = None,
        *,
        fields: Optional[Sequence[str]] = None,
    ) -> pa.Table:
        """Returns the samples of single seconds, as far as they are kept. Counters have the values
        that were read. A guest is in a sample only if it has run since the previous sample."""
        return self._read(part, start, end, None, fields)

    def _read(
        self,
        part: str,
        start: Optional[Time],
        end: Optional[Time],
        step_ms: Optional[int],
        fields: Optional[Sequence[str]],
    ) -> pa.Table:
        if isinstance(fields, str):
            raise TypeError(f"`fields` must be a list: use fields=[{fields!r}]")
        wanted = None if fields is None else list(fields)
        about = {name: rest for name, *rest in _native.fields(part)}
        columns = _native.table(str(self.path), part, *between(start, end), step_ms, wanted)
        arrays, schema = [], []
        for name, kind, values, known, rows, texts in columns:
            array = _array(kind, values, known, rows, texts)
            metadata = None
            if name in about:
                unit, behaves, source, doc = about[name]
                if step_ms is not None:
                    behaves = {"counter": "grown by", "gauge": "mean"}[behaves]
                metadata = {"unit": unit, "kind": behaves, "source": source, "doc": doc}
            elif name == "covered_ms":
                metadata = {"unit": "ms", "doc": "how much of the step is known"}
            arrays.append(array)
            schema.append(pa.field(name, array.type, metadata=metadata))
        return pa.table(arrays, schema=pa.schema(schema))

    def to_parquet(
        self,
        directory: Union[str, os.PathLike[str]],
        start: Optional[Time] = None,
        end: Optional[Time] = None,
        *,
        every: Span = "1min",
        parts: Iterable[str] = PARTS,
    ) -> list[Path]:
        """Writes one file per part, such as ``guests.parquet``, for other tools. Returns the paths.
        Existing files of these names are replaced once all files are written."""
        if isinstance(parts, str):
            raise TypeError(f"`parts` must be a list: use [{parts!r}]")
        tables = {part: self.table(part, start, end, every=every) for part in parts}
        directory = Path(path_text(directory))
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".parquet-", dir=directory) as beside:
            for part, table in tables.items():
                # The file is passed open, because its name may contain bytes that are not text.
                with open(Path(beside) / part, "wb") as file:
                    pq.write_table(table, file)
            written = [directory / f"{part}.parquet" for part in tables]
            for part, path in zip(tables, written):
                (Path(beside) / part).replace(path)
        return written


def _array(
    kind: str, values: bytes, known: Optional[bytes], rows: int, texts: list[str]
) -> pa.Array:
    bits = None if known is None else pa.py_buffer(known)
    buffers = [bits, pa.py_buffer(values)]
    if kind == "text":
        places = pa.Array.from_buffers(pa.int32(), rows, buffers)
        return pa.DictionaryArray.from_arrays(places, pa.array(texts, pa.string()))
    return pa.Array.from_buffers(_TIME if kind == "time" else pa.uint64(), rows, buffers)
