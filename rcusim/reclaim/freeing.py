"""Giving objects of a chain back to the allocator, shared by all generations."""

from __future__ import annotations

from rcusim.reclaim.base import Surroundings
from rcusim.reclaim.books import Part
from rcusim.reclaim.chains import Chain


def free_block(around: Surroundings, cpu: int, chain: Chain, part: Part) -> tuple[int, int]:
    """Free the newest block of `chain` with one ``kfree_bulk()``.

    Returns
    -------
    frame : int
        The block's page, which now belongs to the caller.
    price_ns : int
        What it cost.
    """
    pool, prices = around.pool, around.prices
    chunk = chain.chunks.pop()
    n = pool.count[chunk]
    start = chunk * pool.capacity
    if around.probes.freeing:
        around.probes.freeing(cpu, pool.addresses, start, n, 1, pool.newest[chunk])
    size_bytes = _release(around, cpu, start, n, 1, bulk=True)
    chain.objects -= n
    chain.size_bytes -= size_bytes
    around.books.free(part, n, size_bytes, "kfree_bulk", pool.born_ns[chunk])
    pool.drop(chunk)
    price_ns = prices.bulk_call_ns + n * prices.block_record_ps // 1000
    return pool.frame[chunk], price_ns + around.allocator.price_ns


def free_newest(around: Surroundings, cpu: int, chain: Chain, part: Part, most: int) -> int:
    """Free up to `most` objects of a LIFO list, one ``kfree()`` each; return the price in ns."""
    pool = around.pool
    chunk = chain.chunks[-1]
    n = min(most, pool.count[chunk])
    last = chunk * pool.capacity + pool.count[chunk] - 1
    if around.probes.freeing:
        around.probes.freeing(cpu, pool.addresses, last, n, -1, pool.newest[chunk])
    size_bytes = _release(around, cpu, last, n, -1, bulk=False)
    pool.count[chunk] -= n
    chain.objects -= n
    chain.size_bytes -= size_bytes
    around.books.free(part, n, size_bytes, "kfree", pool.born_ns[chunk])
    if not pool.count[chunk]:
        chain.chunks.pop()
        pool.drop(chunk)
    return n * around.prices.list_walk_ps // 1000 + around.allocator.price_ns


def free_oldest(
    around: Surroundings, cpu: int, chain: Chain, part: Part, most: int
) -> tuple[int, int]:
    """Free up to `most` objects from the front of a FIFO list; return how many and the price in ns."""
    pool = around.pool
    chunk = chain.chunks[0]
    n = min(most, pool.count[chunk] - chain.skip)
    start = chunk * pool.capacity + chain.skip
    if around.probes.freeing:
        around.probes.freeing(cpu, pool.addresses, start, n, 1, pool.newest[chunk])
    size_bytes = _release(around, cpu, start, n, 1, bulk=False)
    chain.skip += n
    chain.objects -= n
    chain.size_bytes -= size_bytes
    around.books.free(part, n, size_bytes, "rcu_do_batch", pool.born_ns[chunk])
    if chain.skip == pool.count[chunk]:
        chain.chunks.popleft()
        pool.drop(chunk)
        chain.skip = 0
    return n, n * around.prices.callback_invoke_ps // 1000 + around.allocator.price_ns


def _release(around: Surroundings, cpu: int, first: int, n: int, step: int, *, bulk: bool) -> int:
    """Let the allocator have the objects; return the bytes that were freed, as it counts them."""
    allocator, addresses = around.allocator, around.pool.addresses
    before_bytes = allocator.handed_out_bytes()
    if bulk:
        allocator.release_bulk(cpu, addresses, first, n)
    else:
        allocator.release(cpu, addresses, first, n, step)
    return before_bytes - allocator.handed_out_bytes()
