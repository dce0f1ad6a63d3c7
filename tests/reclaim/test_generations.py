"""The rules of the generations one by one, each step by hand."""

from __future__ import annotations

import pytest

from rcusim.reclaim.g0 import CallRcuEach
from rcusim.reclaim.g1 import BasicBatching
from rcusim.reclaim.g2 import BulkBlocks
from tests.reclaim.rig import Rig

# -- G0 ------------------------------------------------------------------------------------------


def test_g0_frees_first_in_first_out_and_joins_calls_that_wait_together() -> None:
    rig = Rig(CallRcuEach)
    queued = rig.queue(3) + rig.queue(4)
    assert rig.rcu.requests == 1  # one run on the list
    assert rig.parts() == {"WAITING_GP": 7}
    rig.end()
    assert rig.freed == queued
    assert rig.parts() == {}


def test_g0_a_run_is_closed_when_the_list_has_moved_it() -> None:
    rig = Rig(CallRcuEach)
    first = rig.queue(2)
    moved = rig.rcu.lists.pop(0)
    second = rig.queue(2)
    moved[0].ready()
    assert rig.parts() == {"WAITING_WORKER": 2, "WAITING_GP": 2}
    assert moved[0].invoke(0, 1, 0)[0] == 1
    assert moved[0].invoke(0, 100, 0)[0] == 1
    assert rig.freed == first
    rig.end()
    assert rig.freed == first + second


def test_g0_stops_at_a_multiple_of_32_when_its_time_is_up() -> None:
    rig = Rig(CallRcuEach, entries=512)
    rig.queue(200)
    run = rig.rcu.lists[0][0]
    run.ready()
    # 101 ns each: 100 of the allocator, 1 of the walk
    assert run.invoke(0, 200, 5_000) == (64, 64 * 101)
    assert run.invoke(0, 200, 0) == (136, 136 * 101)


# -- G1 ------------------------------------------------------------------------------------------


def test_g1_arms_the_monitor_once_with_the_first_object() -> None:
    rig = Rig(BasicBatching)
    rig.queue(1)
    rig.queue(5)
    assert [(timer.delay_jiffies, timer.pending) for timer in rig.armed] == [(5, True)]


def test_g1_hands_everything_to_one_slot_and_frees_last_in_first_out_object_by_object() -> None:
    rig = Rig(BasicBatching, entries=3)
    queued = rig.queue(4) + rig.queue(4)
    assert rig.parts() == {"COLLECTING_LIST": 8}
    rig.fire_timers()
    assert rig.rcu.requests == 1
    assert rig.parts() == {"WAITING_GP": 8}
    rig.end()
    assert rig.freed == queued[::-1]
    assert all(line.startswith("kfree ") for line in rig.allocator.log)
    assert rig.parts() == {}


def test_g1_a_busy_slot_means_collect_more_and_come_again() -> None:
    rig = Rig(BasicBatching, slots=2)
    for _ in range(2):
        rig.queue(2)
        rig.fire_timers()
    assert rig.rcu.requests == 2
    rig.queue(2)
    rig.fire_timers()
    rig.queue(3)
    assert rig.rcu.requests == 2  # nothing is forced
    assert rig.parts() == {"WAITING_GP": 4, "COLLECTING_LIST": 5}
    assert rig.fire_timers() == 1  # the monitor armed itself again, and the queue call did not
    assert rig.rcu.requests == 2
    rig.end()
    rig.fire_timers()
    assert rig.parts() == {"WAITING_GP": 5}  # one slot takes all that has collected


def test_a_slot_is_free_again_when_its_work_starts() -> None:
    rig = Rig(BasicBatching, slots=1, objects_per_step=1)
    rig.queue(3)
    rig.fire_timers()
    rig.end(work=False)
    worker = rig.kworkers[0]
    worker.step()  # takes the work, detaches the batch
    rig.queue(2)
    assert rig.parts() == {"WAITING_WORKER": 3, "COLLECTING_LIST": 2}
    krc = rig.generation.krcs[0]
    assert krc.slots[0].waiting is None
    rig.fire_timers()
    assert rig.freed == rig.freed[:3]
    assert rig.parts() == {"WAITING_GP": 2}


def test_nothing_is_armed_while_nothing_is_collected() -> None:
    rig = Rig(BasicBatching)
    rig.queue(1)
    rig.fire_timers()
    assert [timer for timer in rig.armed if timer.pending] == []
    rig.queue(1)
    assert len([timer for timer in rig.armed if timer.pending]) == 1


# -- G2 ------------------------------------------------------------------------------------------


def test_g2_fills_blocks_newest_first_and_frees_them_newest_first_in_bulk() -> None:
    rig = Rig(BulkBlocks, entries=4)
    queued = rig.queue(10)
    assert rig.parts() == {"COLLECTING_BLOCKS": 10}
    assert rig.generation.block_pages() == 3
    rig.fire_timers()
    rig.end()
    assert rig.freed == queued[8:] + queued[4:8] + queued[:4]
    assert rig.allocator.log == ["kfree_bulk 2 on 0", "kfree_bulk 4 on 0", "kfree_bulk 4 on 0"]


def test_g2_keeps_one_page_and_gives_the_others_back() -> None:
    rig = Rig(BulkBlocks, entries=4)
    before = rig.pages.given_pages
    rig.queue(10)
    rig.fire_timers()
    rig.end()
    assert rig.generation.block_pages() == 1
    assert rig.pages.given_pages == before + 1
    refused_or_taken = rig.pages.free_pages
    rig.queue(4)
    assert rig.generation.block_pages() == 1  # the spare page became the block
    assert rig.pages.free_pages == refused_or_taken - 1  # one slab, no block page


def test_g2_without_a_cache_gives_every_page_back() -> None:
    rig = Rig(BulkBlocks, entries=4, cached_pages=0)
    rig.queue(10)
    rig.fire_timers()
    rig.end()
    assert rig.generation.block_pages() == 0


def take_all_but(rig: Rig, pages: int) -> list[int]:
    """Take pages until only `pages` can be had with GFP_NOWAIT."""
    taken = []
    while rig.pages.free_pages > rig.pages.watermarks.min_pages + pages:
        taken.append(rig.pages.take(0, 0))
    return taken


def test_g2_links_on_the_emergency_list_when_no_page_can_be_had_and_tries_again_each_time() -> None:
    rig = Rig(BulkBlocks, entries=4)
    missed: list[tuple[int, int]] = []
    rig.probes.block_missed.subscribe(lambda cpu, objects: missed.append((cpu, objects)))
    rig.queue(32)  # a whole slab and its blocks: later allocations need no page
    rig.fire_timers()
    rig.queue(2)
    taken = take_all_but(rig, 0)
    refused = rig.pages.refused
    queued = rig.queue(5)  # two fit the block, the third finds no page
    assert rig.parts() == {"WAITING_GP": 32, "COLLECTING_BLOCKS": 4, "COLLECTING_LIST": 3}
    assert (missed, rig.books.emergency) == ([(0, 3)], 3)
    assert rig.pages.refused > refused
    rig.pages.give(taken.pop())
    rig.queue(1)  # a page again: back to blocks
    assert rig.parts()["COLLECTING_BLOCKS"] == 5
    rig.end()
    rig.fire_timers()
    rig.freed.clear()
    rig.end()
    # blocks first, then the list, last in first out and one by one
    assert rig.freed[-3:] == queued[2:][::-1]
    assert rig.allocator.log[-1] == "kfree 3 on 0"
    assert rig.parts() == {}


def test_one_grace_period_serves_any_number_of_blocks() -> None:
    rig = Rig(BulkBlocks, entries=4)
    rig.queue(100)
    rig.fire_timers()
    assert rig.rcu.requests == 1


@pytest.mark.parametrize("make", [BasicBatching, BulkBlocks])
def test_cpus_collect_on_their_own(make: object) -> None:
    rig = Rig(make, cpus=2)
    first, second = rig.queue(3, cpu=0), rig.queue(2, cpu=1)
    rig.fire_timers()
    assert rig.rcu.requests == 2
    rig.end(cpu=1)
    assert sorted(rig.freed) == sorted(second)
    rig.end(cpu=0)
    assert sorted(rig.freed) == sorted(first + second)
