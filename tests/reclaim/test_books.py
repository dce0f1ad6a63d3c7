from __future__ import annotations

import pytest

from rcusim._jit import integers
from rcusim.errors import PropertyViolation
from rcusim.reclaim.books import Batch, Books, Part
from rcusim.reclaim.chains import Chain, ChunkPool


def batch_of(n: int, needed_seq: int) -> Batch:
    pool = ChunkPool(8)
    blocks, emergency = Chain(pool), Chain(pool)
    emergency.extend(0, integers(n, fill=0x40), 0, n, 128)
    return Batch("cpu0/krw0", blocks, emergency, needed_seq)


def test_objects_move_between_parts_and_the_total_stays() -> None:
    books = Books(lambda: 50)
    books.allocate(10, 1280)
    books.queue(Part.COLLECTING_LIST, 4, 512)
    books.move(Part.COLLECTING_LIST, Part.WAITING_GP, 4, 512)
    books.free(Part.WAITING_GP, 1, 128, "kfree", born_ns=20, queued_ns=20)
    assert books.objects == [6, 0, 0, 3, 0]
    assert books.size_bytes == [768, 0, 0, 384, 0]
    assert (books.allocated, books.queued, books.freed, books.in_flight_peak) == (10, 4, 1, 4)
    assert (books.wait_ns_max, books.wait_ns_sum, books.freed_by) == (30, 30, {"kfree": 1})


def test_a_batch_waits_for_a_worker_when_its_grace_period_is_over() -> None:
    books = Books(lambda: 0)
    batch = batch_of(2, 4)
    books.allocate(2, batch.size_bytes)
    books.queue(Part.WAITING_GP, 2, batch.size_bytes)
    books.gp_over(batch)
    books.gp_over(batch)  # once is enough
    assert batch.part is Part.WAITING_WORKER
    assert books.objects == [0, 0, 0, 0, 2]


def test_a_batch_that_is_freed_too_early_is_a_violation_that_names_an_object() -> None:
    books = Books(lambda: 77)
    batch = batch_of(1, 4)
    with pytest.raises(PropertyViolation, match="at 77 ns: object 0x40 of cpu0/krw0"):
        books.claim(batch, root_gp_seq=0)
    with pytest.raises(PropertyViolation, match="before its grace period 4 is over"):
        books.claim(batch, root_gp_seq=(1 << 64) - 4)  # numbers wrap: long before 4


def test_a_worker_may_begin_when_the_root_s_number_says_so() -> None:
    books = Books(lambda: 77)
    books.claim(batch_of(1, 4), root_gp_seq=4)
    books.claim(batch_of(1, 4), root_gp_seq=8)
