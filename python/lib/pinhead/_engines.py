"""Where jobs are done: in processes of this machine, or on Ray.

A worker that dies takes nothing with it: what it had is done again. What a job raises is raised.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Callable, Optional, Sequence, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


class WorkerLost(Exception):
    """Workers died again and again, and nothing was done in between."""


def in_processes(
    function: Callable[[Job], Result], jobs: Sequence[Job], workers: Optional[int], tries: int
) -> list[Result]:
    """Does jobs in processes. Gives what came of them, in their order."""
    workers = workers or os.cpu_count() or 1
    results: dict[int, Result] = {}
    left = list(range(len(jobs)))
    in_vain = 0
    while left:
        before = len(left)
        # Nothing of this process is copied into them: it may have threads.
        pool = ProcessPoolExecutor(min(workers, len(left)), mp_context=get_context("spawn"))
        try:
            futures: dict[Future[Result], int] = {}
            lost = False
            for at in left:
                try:
                    futures[pool.submit(function, jobs[at])] = at
                except BrokenProcessPool:
                    lost = True
                    break
            for future in as_completed(futures):
                try:
                    results[futures[future]] = future.result()
                except BrokenProcessPool:
                    lost = True
        finally:
            pool.shutdown(cancel_futures=True)
        left = [at for at in left if at not in results]
        in_vain = in_vain + 1 if lost and len(left) == before else 0
        if in_vain >= tries:
            hint = ""
            if len(left) == len(jobs):
                hint = ". A script needs `if __name__ == '__main__':` before it sweeps"
            raise WorkerLost(
                f"Workers died {in_vain} times and nothing was done in between. The first of "
                f"{len(left)} jobs that are left is {jobs[left[0]]}{hint}"
            )
    return [results[at] for at in range(len(jobs))]


def on_ray(
    function: Callable[[Job], Result], jobs: Sequence[Job], workers: Optional[int], tries: int
) -> list[Result]:
    """Does jobs on the Ray cluster that is connected, as many at once as it has CPUs. Gives what
    came of them, in their order.

    None is started here: Ray's servers listen on every address of a machine and let everybody in,
    and who starts them is to know that. What Ray itself ends because memory is short it does again
    by its own settings.
    """
    try:
        import ray
        from ray.exceptions import RayError, RayTaskError
    except ImportError as error:
        raise ImportError("Ray is not installed: pip install 'pinhead[ray]'") from error

    if not ray.is_initialized():
        raise RuntimeError("Ray is not connected: call ray.init() first, or ray.init(address=...)")
    if workers is not None:
        raise ValueError("workers is for processes: a Ray cluster has as many as it has CPUs")
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
