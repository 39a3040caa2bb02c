import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pinhead
from pinhead import Recording
from pinhead.__main__ import main

GUESTS = [f"g{number}" for number in range(1, 11)]
MIB = 1 << 20


def test_a_table_has_a_row_for_each_guest_and_step(recording):
    first, last = recording.extent()
    assert timedelta(minutes=10) < last - first < timedelta(hours=1)
    table = recording.guests(fields=["actual_bytes", "vcpu_run_ns"])
    assert table.column_names == [
        "time", "guest", "uuid", "class", "covered_ms", "actual_bytes", "vcpu_run_ns",
    ]  # fmt: skip
    frame = table.to_pandas()
    assert sorted(frame["guest"].unique(), key=lambda name: int(name[1:])) == GUESTS
    a_minute = frame[frame["time"] == frame["time"].iloc[len(frame) // 2]]
    assert sorted(a_minute["guest"], key=lambda name: int(name[1:])) == GUESTS
    assert frame["actual_bytes"].dropna().between(32 * MIB, 256 * MIB).all()
    # A guest with one CPU runs for at most a minute per minute.
    assert frame["vcpu_run_ns"].dropna().between(0, 61 * 10**9).all()
    assert frame["time"].min() >= first - timedelta(minutes=1)
    # A row of five minutes has the sum of the rows of its minutes.
    fives = recording.guests(every="5min", fields=["vcpu_run_ns"]).to_pandas()
    assert fives["vcpu_run_ns"].sum() == frame["vcpu_run_ns"].sum()


def test_columns_say_what_they_are(recording):
    field = recording.guests().schema.field("resident_bytes")
    about = {key.decode(): value.decode() for key, value in field.metadata.items()}
    assert (about["unit"], about["kind"]) == ("bytes", "mean")
    assert about["source"] and about["doc"]
    assert recording.guests().schema.field("vcpu_run_ns").metadata[b"kind"] == b"grown by"
    assert recording.samples().schema.field("vcpu_run_ns").metadata[b"kind"] == b"counter"


def test_samples_are_those_of_a_second(recording):
    host = recording.samples("host", fields=["available_bytes"])
    seconds = host["time"].to_pandas().diff().dropna().dt.total_seconds()
    assert 0.5 < seconds.median() < 2
    assert host["available_bytes"].null_count == 0
    # Samples are kept only for a while, so the first sample is not at the start of the recording.
    first = host["time"][0].as_py()
    part = recording.samples("host", first, first + timedelta(minutes=2))
    assert 0 < len(part) < len(host)


def test_what_is_not_known_is_null(recording):
    tables = [recording.table(part) for part in ("host", "guests", "tiers", "processes")]
    assert any(column.null_count for table in tables for column in table.columns)
    for table in tables:
        for name in table.column_names:
            column = table[name]
            assert len(column.drop_null()) + column.null_count == len(table)


def test_a_time_is_a_part_of_the_whole(recording):
    first, last = recording.extent()
    middle = first + (last - first) / 2
    whole = recording.host(every="1min")
    parts = [recording.host(first, middle), recording.host(middle, last)]
    assert abs(sum(len(part) for part in parts) - len(whole)) <= 2
    assert len(recording.host(last + timedelta(days=1))) == 0
    assert recording.gaps(last).column_names == ["from", "to", "reason"]


def test_rows_begin_on_round_times(recording):
    first, last = recording.extent()
    middle = (first + (last - first) / 2).replace(second=59, microsecond=0)
    whole = recording.host(fields=["user_ns"]).to_pydict()
    part = recording.host(middle, fields=["user_ns"]).to_pydict()
    assert part["time"][0] == middle.replace(second=0)
    at = whole["time"].index(part["time"][0])
    assert part["user_ns"] == whole["user_ns"][at:]
    quarters = recording.host(middle, every="15min", fields=["user_ns"])
    assert all(moment.minute % 15 == 0 for moment in quarters["time"].to_pylist())


def test_quarters_are_not_shown_as_minutes(own):
    [day] = (own / "recordings").glob("2*-*-*.db")
    day.unlink()
    (own / "recordings" / "raw.db").unlink()
    left = Recording(own / "recordings")
    with pytest.raises(pinhead.Error, match='every="15min"'):
        left.host()
    assert left.host(every="15min")["covered_ms"].to_pylist()[0] > 60_000
    assert len(left.guests(every="1h")) == 10


def test_processes_are_told_apart(recording):
    table = recording.table("processes", every="5min")
    assert table.schema.field("pid").type == pa.uint64()
    assert set(table["uuid"].to_pylist()) <= set(recording.guests()["uuid"].to_pylist())


def test_names_may_have_bytes_that_are_no_text(own):
    odd = Path(os.fsdecode(os.fsencode(own) + b"/od\xffd"))
    (own / "recordings").rename(odd)
    assert len(pinhead.Recording(odd).to_parquet(odd / "out")) == 4
    assert len(pinhead.sweep([odd], ["none"], workers=1)) == 1


def test_parquet_is_read_by_others(recording, tmp_path):
    files = recording.to_parquet(tmp_path / "out", parts=["guests", "host"])
    assert [path.name for path in files] == ["guests.parquet", "host.parquet"]
    ours = recording.guests()
    assert pq.read_table(files[0]).num_rows == len(ours)
    assert len(pandas.read_parquet(files[0])) == len(ours)
    frame = polars.read_parquet(files[0])
    assert frame.height == len(ours)
    assert polars.from_arrow(ours)["resident_bytes"].null_count() == ours["resident_bytes"].null_count
    assert main(["parquet", str(recording.path), str(tmp_path / "more"), "--every", "5min"]) == 0
    assert sorted(path.name for path in (tmp_path / "more").iterdir()) == [
        "guests.parquet", "host.parquet", "processes.parquet", "tiers.parquet",
    ]  # fmt: skip


def test_bad_questions_say_what_would_be_right(recording, tmp_path, capsys):
    with pytest.raises(ValueError, match="host, guests, tiers or processes"):
        recording.table("guest")
    with pytest.raises(ValueError, match="did you mean resident_bytes"):
        recording.guests(fields=["residentbytes"])
    with pytest.raises(ValueError, match="named twice"):
        recording.guests(fields=["vcpus", "vcpus"])
    with pytest.raises(TypeError, match="use fields="):
        recording.guests(fields="resident_bytes")
    with pytest.raises(ValueError, match="no time zone"):
        recording.guests(datetime(2026, 11, 25))
    with pytest.raises(TypeError, match="is not a time"):
        recording.guests("yesterday")
    for every in ("often", "99999999999999999999d", "0min"):
        with pytest.raises(ValueError, match="such as 5min, 3h or 1d"):
            recording.guests(every=every)
    with pytest.raises(TypeError, match="such as '5min'"):
        recording.guests(every=60)
    with pytest.raises(pinhead.Error, match="whole minutes"):
        recording.guests(every="90s")
    with pytest.raises(ValueError, match="ends before it begins"):
        recording.guests(10, 5)
    with pytest.raises(ValueError, match="milliseconds since 1970"):
        recording.guests(1 << 70)
    with pytest.raises(TypeError, match=r"use \['host'\]"):
        recording.to_parquet(tmp_path / "none", parts="host")
    assert not (tmp_path / "none").exists()
    with pytest.raises(pinhead.Error, match="nowhere"):
        Recording(tmp_path / "nowhere")
    assert main(["parquet", str(tmp_path / "nowhere"), str(tmp_path / "out")]) == 1
    assert "nowhere" in capsys.readouterr().err
    words = ["parquet", str(recording.path), str(tmp_path / "out"), "--every", "9" * 20 + "d"]
    assert main(words) == 1 and "such as 5min" in capsys.readouterr().err


def test_a_directory_with_nothing_in_it_has_nothing(tmp_path):
    empty = Recording(tmp_path)
    assert empty.extent() is None
    assert len(empty.guests()) == 0 and len(empty.samples()) == 0


def test_a_recording_that_is_torn_is_refused(own):
    [day] = (own / "recordings").glob("2*-*-*.db")
    day.write_bytes(day.read_bytes()[: 3 * 4096 + 100])
    with pytest.raises(pinhead.Error, match=day.name):
        Recording(own / "recordings").guests(every=timedelta(minutes=1))


def test_times_may_be_milliseconds(recording):
    first, last = recording.extent()
    ms = round(first.timestamp() * 1000)
    assert recording.host(ms, ms + 300_000).equals(
        recording.host(first, datetime.fromtimestamp(ms / 1000 + 300, timezone.utc))
    )
