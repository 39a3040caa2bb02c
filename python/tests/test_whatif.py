import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

import pinhead
from pinhead import World


def test_what_was_recorded_comes_out_again(recording, taken):
    found = pinhead.replay(recording, journal=taken / "journal.db", decisions=True)
    assert found.agreement["moves"] > 10
    with closing(sqlite3.connect(taken / "journal.db")) as journal:
        (written,) = journal.execute("select count(*) from decision").fetchone()
    assert found.agreement["same"] >= 0.95 * written > 60
    # Today's rules also release balloons. The rules at the time of the recording did not.
    assert found.agreement["decisions"] <= 1.4 * written
    assert found.other is None
    ours = found.recorded
    assert ours.policy == "recorded" and ours.passes > 100 and len(ours.guests) == 10
    moves = ours.decisions.filter(ours.decisions["moves"])
    assert set(moves["action"].to_pylist()) <= {"grow", "shrink"}
    assert ours.totals["grows"] + ours.totals["shrinks"] >= 10
    assert all(reason for reason in moves["reason"].to_pylist())


def test_another_policy_stands_beside_it(recording):
    found = pinhead.replay(recording, policy="none")
    assert found.other.totals["grows"] + found.other.totals["shrinks"] == 0
    assert found.other.decisions is None
    guests = found.guests.to_pandas()
    assert sorted(guests["policy"].unique()) == ["none", "recorded"] and len(guests) == 20
    # Without a policy no guest returns memory, so all guests keep their memory.
    assert found.other.totals["had_byte_seconds"] > found.recorded.totals["had_byte_seconds"]


def test_another_world(recording):
    wider = pinhead.simulate(recording, World(host="4 GiB")).other
    assert wider.host["mean_available_bytes"] > 2 << 30
    more = pinhead.simulate(recording, World(more=5, like="g*")).other
    assert len(more.guests) == 15
    first = recording.extent()[0]
    part = pinhead.simulate(recording, World(growth=0.5), start=first + timedelta(minutes=5))
    assert part.recorded.passes == part.other.passes
    fits = pinhead.fit(recording, "g1", World(host="8 GiB"))
    assert fits.count >= 5 and not fits.is_bound


def test_sizes(recording):
    sizes = pinhead.size(recording, enough="5min")
    frame = sizes.guests.to_pandas()
    assert len(frame) == 10 and set(frame["verdict"]) <= {"too large", "fits", "too small"}
    assert (frame["lower_bytes"] <= frame["size_bytes"]).all()
    assert (frame["size_bytes"] <= frame["upper_bytes"]).all()
    assert sizes.sizes_bytes == frame["size_bytes"].sum()
    assert 0 < sizes.needed_at_once_bytes <= sizes.sizes_bytes
    rules = sizes.rules.to_pandas()
    assert {"pinhead", "vpa"} <= set(rules["rule"]) and "" in set(rules["guest"])
    [one] = pinhead.size(recording, ["g1"], enough="5min").guests.to_pylist()
    assert one["guest"] == "g1"
    generous = pinhead.size(recording, ["g1"], enough="5min", headroom=0.5)
    assert generous.guests["size_bytes"][0].as_py() > one["size_bytes"]
    [unsure] = pinhead.size(recording, ["g1"], enough="1d").guests.to_pylist()
    assert unsure["verdict"] == "not enough history"


def test_bad_questions_say_what_would_be_right(recording):
    with pytest.raises(pinhead.Error, match="neither a policy nor a file.*proxmox"):
        pinhead.replay(recording, policy="proxmux")
    with pytest.raises(pinhead.Error, match="No guest web"):
        pinhead.simulate(recording, World(more=2, like="web*"))
    for world in (World(more=2), World(like="g1"), World(host="2 GiB", like="nope")):
        with pytest.raises(ValueError, match="like='web\\*'"):
            pinhead.simulate(recording, world)
    with pytest.raises(TypeError, match="is not a world"):
        pinhead.simulate(recording, "proxmox")
    for host in (0, 1 << 64, "0 B", "16"):
        with pytest.raises(ValueError, match="16 GiB"):
            pinhead.simulate(recording, World(host=host))
    with pytest.raises(ValueError, match="whole thousandths"):
        pinhead.simulate(recording, World(growth=0.0004))
    with pytest.raises(TypeError, match="percentile is '99"):
        pinhead.size(recording, percentile="99.9%")
    with pytest.raises(ValueError, match="ends before it begins"):
        pinhead.replay(recording, start=2, end=1)
    with pytest.raises(ValueError, match="the world has no change"):
        pinhead.simulate(recording, World())
    with pytest.raises(ValueError, match="16 GiB"):
        pinhead.replay(recording, host="16 gibibytes")
    with pytest.raises(ValueError, match="percentile is 99.9"):
        pinhead.size(recording, percentile=99.9)
    with pytest.raises(pinhead.Error, match="No guest g0 was recorded"):
        pinhead.size(recording, ["g0"])
    with pytest.raises(TypeError, match="use \\['g1'\\]"):
        pinhead.size(recording, "g1")
    last = recording.extent()[1]
    with pytest.raises(pinhead.Error, match="This time has no passes"):
        pinhead.replay(recording, start=last + timedelta(days=1))


def test_passes_that_are_torn_are_refused(own):
    passes = own / "recordings" / "passes" / "passes.db"
    if not passes.exists():
        [passes] = own.glob("recordings/**/passes*.db")
    passes.write_bytes(b"not a database, and longer than the header of one is" * 100)
    with pytest.raises(pinhead.Error, match="passes"):
        pinhead.replay(own / "recordings")


def test_ray_is_not_started_by_itself(recording):
    with pytest.raises(RuntimeError, match="call ray.init"):
        pinhead.sweep([recording], ["none"], engine="ray")
