"""Kernels on a Dask cluster of four processes, and on a Ray cluster of two nodes."""

import os
import time

import numpy
import pytest

import farcall
from conftest import until

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


def executors():
    """The processes of the installed package's executor on this machine, on which all nodes are."""
    program = os.path.join(os.path.dirname(farcall.__file__), "farcall-executor")
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            is_one = os.readlink(f"/proc/{pid}/exe") == program
        except OSError:
            continue
        if is_one:
            found.append(int(pid))
    return found


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
                # The next call of each worker starts its executor again, if the last one has crashed.
                client.run(kernel.reference(), numpy.zeros(3))
                assert len(executors()) == workers
        until(lambda: not executors(), 30)
    growth = {name: rates[name, 4] / rates[name, 1] for name in ("numpy", "farcall")}
    print("dask: rows/s", {key: f"{rate:.3g}" for key, rate in rates.items()}, "growth", growth)
    assert growth["farcall"] > 0.7 * growth["numpy"]


def test_ray():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    from farcall import ray as over_ray

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 400 << 20})
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
        pool = over_ray.actors(kernel, 2, num_cpus=0)
        good = [part for number, part in enumerate(parts) if number not in BAD][:8]
        for part, result in zip(good, pool.map(lambda actor, part: actor.call.remote(part), good)):
            assert numpy.array_equal(result, part * 2 + 1)
        seen = len(executors())
        assert seen >= 2, "those of both actors at least"
    finally:
        ray.shutdown()
        cluster.shutdown()
    until(lambda: not executors(), 30)
    print(f"ray: {PARTITIONS} partitions, {len(BAD)} crashes named, {seen} executors gone")
