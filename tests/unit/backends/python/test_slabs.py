"""Slabs: sealed, pooled, leased for as long as anybody looks."""

from __future__ import annotations

import fcntl
import gc
import os

import numpy as np
import psutil
import pytest

from infer.backends.python.worker import slabs
from infer.backends.python.worker.slabs import Slab, SlabError, SlabMap, SlabPool


def admit(mapping: SlabMap, slab: Slab, size: int) -> None:
    mapping.admit(slab.id, slab.take_descriptor(), size)


def test_a_slab_can_neither_shrink_nor_grow() -> None:
    descriptor = slabs.create(8192)
    for size in (0, 100_000):
        with pytest.raises(OSError, match="not permitted"):
            os.ftruncate(descriptor, size)
    with pytest.raises(OSError, match="not permitted"):
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, 0)
    os.close(descriptor)


def test_what_the_creator_writes_is_what_a_lease_shows_and_the_lease_is_writable() -> None:
    pool, mapping = SlabPool(), SlabMap(lambda _: None)
    slab = pool.take(1000)
    assert slab.write(64, np.arange(10, dtype=np.int32)) == 40
    admit(mapping, slab, 1000)
    lease = mapping.lease(slab.id, 1000)
    assert lease[64:104].view(np.int32).tolist() == list(range(10))
    assert lease.ctypes.data % 4096 == 0
    lease[0] = 7


def test_release_comes_when_the_last_view_of_any_depth_is_gone() -> None:
    released: list[int] = []
    pool, mapping = SlabPool(), SlabMap(released.append)
    slab = pool.take(4000)
    admit(mapping, slab, 4000)
    lease = mapping.lease(slab.id, 4000)
    array = np.ndarray((10, 10), np.float32, lease, 64)  # pyright: ignore[reportArgumentType]
    view, window = array.T[::2], memoryview(lease)[10:20]
    del lease, array
    gc.collect()
    assert released == []
    del view
    assert released == []
    del window
    assert released == [slab.id]
    assert mapping.lease(slab.id, 4000).nbytes == 4000


def test_a_slab_in_use_unknown_or_too_small_is_not_leased() -> None:
    pool, mapping = SlabPool(), SlabMap(lambda _: None)
    slab = pool.take(1000)
    with pytest.raises(SlabError, match="unknown"):
        mapping.lease(slab.id, 1)
    admit(mapping, slab, 1000)
    with pytest.raises(SlabError, match="holds less"):
        mapping.lease(slab.id, slab.size + 1)
    lease = mapping.lease(slab.id, 1000)
    with pytest.raises(SlabError, match="in use"):
        mapping.lease(slab.id, 1000)
    del lease


def test_an_unsealed_short_or_foreign_descriptor_is_not_mapped_and_is_closed() -> None:
    mapping = SlabMap(lambda _: None)
    before = psutil.Process().num_fds()
    unsealed = os.memfd_create("x", os.MFD_ALLOW_SEALING)
    os.ftruncate(unsealed, 4096)
    for descriptor in (unsealed, slabs.create(100), os.open(os.devnull, os.O_RDWR)):
        with pytest.raises(SlabError):
            mapping.admit(1, descriptor, 4096)
    assert psutil.Process().num_fds() == before


def test_a_pool_hands_out_a_warm_slab_again_only_after_its_release() -> None:
    pool = SlabPool()
    first = pool.take(200_000)
    second = pool.take(200_000)
    assert first.id != second.id
    assert pool.give_back(first.id)
    assert pool.take(262_144) is first
    assert pool.counts == (2, 0)
    pool.close()


def test_a_pool_lets_go_of_what_is_beyond_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slabs, "IDLE_LIMIT", slabs.SMALLEST)
    pool = SlabPool()
    first, second = pool.take(1), pool.take(1)
    assert pool.give_back(first.id)
    assert not pool.give_back(second.id)
    assert pool.counts == (0, 1)
    pool.close()


def test_bytes_pass_through_a_sealed_memfd() -> None:
    data = os.urandom(300_000)
    descriptor = slabs.from_bytes(memoryview(data))
    assert slabs.to_bytes(descriptor, len(data)) == data
    with pytest.raises(SlabError):
        slabs.to_bytes(descriptor, len(data) + 1)
    os.close(descriptor)
