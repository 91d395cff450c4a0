"""Kernels on the workers of a Dask cluster.

The objects of a kernel travel to each worker once, and to workers that come later. Each worker keeps executors, one for each of
its threads. A crash fails one task with :class:`farcall.ExecutorDied`; Dask's ``retries`` decides what happens then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distributed import WorkerPlugin

if TYPE_CHECKING:
    from .kernel import Kernel, Reference


class _Installation(WorkerPlugin):
    idempotent = True

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.name = f"farcall-{kernel.key}"

    def setup(self, worker: Any) -> None:
        self.kernel.install(processes=worker.state.nthreads)

    def teardown(self, worker: Any) -> None:
        self.kernel.close()


def install(client: Any, kernel: Kernel) -> Reference:
    """Installs a kernel on all workers. Returns what tasks call: a small name of it."""
    client.register_plugin(_Installation(kernel))
    return kernel.reference()


def uninstall(client: Any, kernel: Kernel) -> None:
    """Ends the executors of a kernel on all workers."""
    client.unregister_worker_plugin(f"farcall-{kernel.key}")


def map_partitions(client: Any, kernel: Kernel, *columns: Any, **options: Any) -> Any:
    """Calls a kernel for each partition: ``columns`` are lists of arrays, or of futures of arrays. Returns futures.

    ``options`` are those of ``Client.map``, such as ``retries``.
    """
    options = {"pure": False, **options}
    return client.map(install(client, kernel), *columns, **options)
