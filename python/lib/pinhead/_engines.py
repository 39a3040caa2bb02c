"""Engines that run jobs: processes of this machine, or Ray.

If a worker dies, its job is repeated. An error that a job raises is raised again here.
"""

from __future__ import annotations

import os
from collections import deque
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from traceback import format_exc
from typing import Any, Callable, Optional, Sequence, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


class WorkerLost(Exception):
    """A job could not be done, because each worker that ran it died."""


class _Remote(Exception):
    """Traceback of a worker, as the cause of the error that its job raised."""


def _serve(function: Callable[[Any], Any], jobs: Connection) -> None:
    """Answers each job with (done, result or error, traceback), until the pipe is closed."""
    while True:
        try:
            job = jobs.recv()
        except EOFError:
            return
        answer: tuple[bool, Any, str]
        try:
            answer = (True, function(job), "")
        except Exception as error:
            answer = (False, error, format_exc())
        try:
            jobs.send(answer)
        except OSError:
            return
        except Exception:
            # Pickle cannot encode some results and some errors.
            jobs.send((False, RuntimeError(f"the result cannot be sent: {answer[1]!r}"), format_exc()))


def in_processes(
    function: Callable[[Job], Result], jobs: Sequence[Job], workers: Optional[int], tries: int
) -> list[Result]:
    """Runs jobs in processes. Returns the results in the order of the jobs.

    ``ProcessPoolExecutor`` is not used: if a worker dies while it starts, a job may never end.
    """
    # Workers are started anew instead of forked, because this process may have threads.
    context = get_context("spawn")
    waiting = deque(range(len(jobs)))
    results: dict[int, Result] = {}
    deaths = [0] * len(jobs)
    busy: dict[Connection, tuple[BaseProcess, int]] = {}

    def lost(at: int) -> None:
        """Queues a lost job again, unless `tries` workers have died while running the job."""
        deaths[at] += 1
        if deaths[at] < tries:
            waiting.appendleft(at)
            return
        hint = ""
        if not results:
            hint = ". A script needs `if __name__ == '__main__':` before it sweeps"
        raise WorkerLost(f"Workers died {tries} times at {jobs[at]}{hint}")

    def hand_out(connection: Connection, process: BaseProcess) -> None:
        """Gives a worker the next job, or ends the worker when no job waits."""
        if not waiting:
            connection.close()
            process.join()
            return
        at = waiting.popleft()
        busy[connection] = (process, at)
        try:
            connection.send(jobs[at])
        except OSError:
            pass  # The worker is dead. The next read from the worker reports this, too.

    try:
        while waiting or busy:
            while waiting and len(busy) < (workers or os.cpu_count() or 1):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(function, theirs), daemon=True)
                process.start()
                theirs.close()
                hand_out(ours, process)
            for connection in wait(list(busy)):
                assert isinstance(connection, Connection)
                worker, at = busy.pop(connection)
                try:
                    done, value, trace = connection.recv()
                except (EOFError, OSError):
                    connection.close()
                    worker.join()
                    lost(at)
                    continue
                if not done:
                    connection.close()
                    worker.join()
                    raise value from _Remote(trace)
                results[at] = value
                hand_out(connection, worker)
    finally:
        for connection, (worker, _) in busy.items():
            worker.terminate()
            worker.join()
            connection.close()
    return [results[at] for at in range(len(jobs))]


def on_ray(
    function: Callable[[Job], Result], jobs: Sequence[Job], workers: Optional[int], tries: int
) -> list[Result]:
    """Runs jobs on the connected Ray cluster, as many at once as the cluster has CPUs. Returns the
    results in the order of the jobs.

    No cluster is started here. Ray's servers listen on every address of a machine and admit
    everybody, so the user must decide to start them. If Ray itself ends a job because memory is
    short, Ray repeats the job by its own settings.
    """
    try:
        import ray
        from ray.exceptions import RayError, RayTaskError
    except ImportError as error:
        raise ImportError("Ray is not installed: pip install 'pinhead[ray]'") from error

    if not ray.is_initialized():
        raise RuntimeError("Ray is not connected: call ray.init() first, or ray.init(address=...)")
    if workers is not None:
        raise ValueError("`workers` applies to engine='process' only: Ray runs one worker per CPU")
    remote = ray.remote(max_retries=tries - 1, num_cpus=1)(function)
    references = [remote.remote(job) for job in jobs]
    results: list[Result] = []
    try:
        for job, reference in zip(jobs, references):
            try:
                results.append(ray.get(reference))
            except RayTaskError as error:
                raise error.cause from error
            except RayError as error:
                raise WorkerLost(f"Workers died {tries} times at {job}: {error}") from error
    finally:
        for reference in references[len(results) :]:
            ray.cancel(reference)
    return results


ENGINES = {"process": in_processes, "ray": on_ray}
