import os
import signal
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import pinhead
from pinhead import World
from pinhead._engines import ENGINES, WorkerLost

POLICIES = ["pinhead", "none", "proxmox"]
WORLDS = [World(), World(host="1 GiB", growth=0.1)]


def as_bytes(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.fixture(scope="module")
def ray():
    """A local Ray with two workers."""
    ray = pytest.importorskip("ray")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        # Workers must be able to import this file.
        runtime_env={"env_vars": {"PYTHONPATH": str(Path(__file__).parent)}},
    )
    yield ray
    ray.shutdown()


def test_ray_and_processes_give_the_same_table(recording, ray):
    tables = [
        pinhead.sweep([recording], POLICIES, WORLDS, workers=2),
        pinhead.sweep([recording], POLICIES, WORLDS, engine="ray"),
    ]
    assert as_bytes(tables[0]) == as_bytes(tables[1])
    table = tables[0]
    assert table.schema == pinhead.SWEEP_SCHEMA and len(table) == len(POLICIES) * len(WORLDS)
    assert table["policy"].to_pylist() == [name for name in POLICIES for _ in WORLDS]
    assert table["host_bytes"].to_pylist()[:2] == [None, 1 << 30]
    alone = pinhead.simulate(recording, World(policy="proxmox")).other
    row = table.slice(4, 1).to_pylist()[0]
    assert {name: row[name] for name in alone.host if name in row} == {
        name: value for name, value in alone.host.items() if name in row
    }


def killed_once(job):
    """Kills its own process, but only the first time."""
    path, number = job
    if number == 2 and not Path(path).exists():
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def killed_always(job):
    if job == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return job


def dies(job):
    os._exit(9)


def test_workers_may_die_while_jobs_are_handed_out():
    with pytest.raises(WorkerLost, match="died 1 times at 0.*__main__"):
        ENGINES["process"](dies, list(range(20_000)), 1, 1)


def dies_at_each_tenth(job):
    path, number = job
    if number % 10 == 0 and not (path / str(number)).exists():
        (path / str(number)).touch()
        os._exit(9)
    return number


def test_each_job_of_a_worker_that_died_is_done_when_many_die(tmp_path):
    jobs = [(tmp_path, number) for number in range(100)]
    assert ENGINES["process"](dies_at_each_tenth, jobs, 3, 2) == list(range(100))
    assert len(list(tmp_path.iterdir())) == 10


def gives_a_lock(job):
    return threading.Lock()


def test_a_result_that_cannot_be_sent_is_an_error():
    with pytest.raises(RuntimeError, match="the result cannot be sent: .*lock"):
        ENGINES["process"](gives_a_lock, [0], 1, 1)


def refused(job):
    raise ValueError(f"job {job} is wrong")


@pytest.mark.parametrize("engine", ["process", "ray"])
def test_what_a_worker_that_died_had_is_done_again(engine, tmp_path, request):
    if engine == "ray":
        request.getfixturevalue("ray")
    jobs = [(str(tmp_path / "killed"), number) for number in range(6)]
    workers = 2 if engine == "process" else None
    assert ENGINES[engine](killed_once, jobs, workers, 3) == [0, 1, 4, 9, 16, 25]
    assert (tmp_path / "killed").exists()


def test_workers_that_die_again_and_again_are_reported(ray):
    with pytest.raises(WorkerLost, match="died 2 times at 0"):
        ENGINES["process"](killed_always, [0], 1, 2)
    with pytest.raises(WorkerLost, match="died 2 times at 0"):
        ENGINES["ray"](killed_always, [0], None, 2)


def test_what_a_job_raises_is_raised(recording):
    with pytest.raises(ValueError, match="job 1 is wrong"):
        ENGINES["process"](refused, [1], 1, 3)
    with pytest.raises(pinhead.Error, match="neither a policy"):
        pinhead.sweep([recording], ["proxmux"], workers=1)


def test_bad_questions_say_what_would_be_right(recording):
    with pytest.raises(ValueError, match="process, ray"):
        pinhead.sweep([recording], ["none"], engine="threads")
    with pytest.raises(TypeError, match=r"use \['none'\]"):
        pinhead.sweep([recording], "none")
    with pytest.raises(TypeError, match="`recordings` must be a list"):
        pinhead.sweep(recording, ["none"])
    with pytest.raises(ValueError, match="tries is 0"):
        pinhead.sweep([recording], ["none"], tries=0)
    with pytest.raises(ValueError, match="go into the argument `policies`"):
        pinhead.sweep([recording], ["none"], [World(policy="mom")])
    both = pinhead.sweep((one for one in [recording] * 2), (name for name in ["none"]))
    assert len(both) == 2
    assert len(pinhead.sweep([], ["none"])) == 0
