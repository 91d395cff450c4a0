"""Kernels on the nodes of a Ray cluster.

The objects of a kernel lie in Ray's object store, and come to each worker once. Each worker keeps executors. A crash fails one
task with :class:`farcall.ExecutorDied`; Ray's ``max_retries`` and ``retry_exceptions`` decide what happens then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ray

if TYPE_CHECKING:
    from .kernel import Kernel


@ray.remote
def _call(kernel, *columns):
    return kernel(*columns)


@ray.remote
class _Actor:
    def __init__(self, kernel):
        self.kernel = kernel
        kernel.install()

    def call(self, *columns):
        return self.kernel(*columns)


def remote(kernel: Kernel, **options: Any) -> Callable[..., Any]:
    """A function that calls the kernel in a task of Ray and returns a reference. ``options`` are those of Ray's tasks."""
    stored = ray.put(kernel)
    task = _call.options(**{"name": kernel.prototype, **options})
    return lambda *columns: task.remote(stored, *columns)


def actors(kernel: Kernel, count: int, **options: Any) -> Any:
    """Actors that keep warm executors, in a ``ray.util.ActorPool``: ``pool.map(lambda actor, x: actor.call.remote(x), parts)``.

    ``options`` are those of Ray's actors.
    """
    from ray.util import ActorPool

    stored = ray.put(kernel)
    return ActorPool([_Actor.options(**options).remote(stored) for _ in range(count)])


def map_partitions(kernel: Kernel, *columns: Any, **options: Any) -> list[Any]:
    """Calls a kernel for each partition: ``columns`` are lists of arrays, or of references to arrays. Returns references."""
    call = remote(kernel, **options)
    return [call(*partition) for partition in zip(*columns)]
