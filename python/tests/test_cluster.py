"""Kernels on a Dask cluster of four processes, and on a Ray cluster of two nodes."""

import time

import numpy
import pytest

import farcall
from conftest import is_running, until

pytestmark = pytest.mark.full

ROWS, PARTITIONS, BAD = 10_000_000, 64, (5, 30, 63)
SOURCE = r"""
#include <stddef.h>
void kernel(const double *x, double *y, size_t rows) {
    for (size_t row = 0; row < rows; row++) {
        if (x[row] < 0) *(volatile long *)8 = 1;
        y[row] = x[row] * 2 + 1;
    }
}
"""
PROTOTYPE = "void kernel(const double *x, double *y, size_t rows)"


def partitions():
    parts = numpy.array_split(numpy.arange(float(ROWS)), PARTITIONS)
    for bad in BAD:
        parts[bad][7] = -1
    return parts


def check(parts, results):
    """All are right, and those that crash are named."""
    assert len(results) == PARTITIONS
    for number, (part, result) in enumerate(zip(parts, results)):
        if number in BAD:
            assert isinstance(result, farcall.ExecutorDied), (number, result)
            assert result.signal.name == "SIGSEGV" and result.function == "kernel"
        else:
            assert numpy.array_equal(result, part * 2 + 1), number


def numpy_job(part):
    return part * 2 + 1


def executor_pids(*_):
    from farcall import kernel

    return [pid for warm in kernel._warm.values() for pid in warm.executor.pids]


def test_dask():
    distributed = pytest.importorskip("distributed")
    from farcall import dask

    kernel, parts = farcall.Kernel(PROTOTYPE, source=SOURCE), partitions()
    rates = {}
    for workers in (1, 4):
        with distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
            with distributed.Client(cluster) as client:
                good = [part for number, part in enumerate(parts) if number not in BAD]
                stored = client.scatter(good)
                for name, job in (("numpy", numpy_job), ("farcall", dask.install(client, kernel))):
                    client.gather(client.map(job, stored[:8], pure=False))
                    began = time.monotonic()
                    distributed.wait(client.map(job, stored, pure=False))
                    rates[name, workers] = sum(map(len, good)) / (time.monotonic() - began)
                futures = dask.map_partitions(client, kernel, client.scatter(parts), retries=0)
                results = [future.exception() or future.result() for future in futures]
                check(parts, results)
                pids = [pid for some in client.run(executor_pids).values() for pid in some]
                assert len(pids) == workers and all(map(is_running, pids))
        until(lambda: not any(map(is_running, pids)))
    growth = {name: rates[name, 4] / rates[name, 1] for name in ("numpy", "farcall")}
    print("dask: rows/s", {key: f"{rate:.3g}" for key, rate in rates.items()}, "growth", growth)
    assert growth["farcall"] > 0.7 * growth["numpy"]


def test_ray():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    from farcall import ray as over_ray

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 400 << 20})
    pids = []
    try:
        ray.init(address=cluster.address, include_dashboard=False, log_to_driver=False)
        cluster.add_node(num_cpus=1, object_store_memory=400 << 20)
        cluster.wait_for_nodes()
        assert len(ray.nodes()) == 2
        kernel, parts = farcall.Kernel(PROTOTYPE, source=SOURCE), partitions()
        references = over_ray.map_partitions(kernel, parts, max_retries=0)
        results = []
        for reference in references:
            try:
                results.append(ray.get(reference, timeout=300))
            except farcall.ExecutorDied as death:
                results.append(death)
        check(parts, results)
        asked = ray.remote(executor_pids)
        pids = [pid for some in ray.get([asked.remote() for _ in range(8)]) for pid in some]
        assert pids and all(map(is_running, pids))
        pool = over_ray.actors(kernel, 2, num_cpus=0)
        good = [part for number, part in enumerate(parts) if number not in BAD][:8]
        for part, result in zip(good, pool.map(lambda actor, part: actor.call.remote(part), good)):
            assert numpy.array_equal(result, part * 2 + 1)
    finally:
        ray.shutdown()
        cluster.shutdown()
    until(lambda: not any(map(is_running, pids)), 30)
    print(f"ray: {PARTITIONS} partitions, {len(BAD)} crashes named, {len(set(pids))} executors gone")
