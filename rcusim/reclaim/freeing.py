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
    _book(around, cpu, chain, part, chunk, start, n, 1, "kfree_bulk")
    around.allocator.release_bulk(cpu, pool.addresses, start, n)
    pool.drop(chunk)
    price_ns = prices.bulk_call_ns + n * prices.block_record_ps // 1000
    return pool.frame[chunk], price_ns + around.allocator.price_ns


def free_newest(around: Surroundings, cpu: int, chain: Chain, part: Part, most: int) -> int:
    """Free up to `most` objects of a LIFO list, one ``kfree()`` each; return the price in ns."""
    pool = around.pool
    chunk = chain.chunks[-1]
    n = min(most, pool.count[chunk])
    last = chunk * pool.capacity + pool.count[chunk] - 1
    _book(around, cpu, chain, part, chunk, last, n, -1, "kfree")
    around.allocator.release(cpu, pool.addresses, last, n, -1)
    pool.count[chunk] -= n
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
    _book(around, cpu, chain, part, chunk, start, n, 1, "rcu_do_batch")
    around.allocator.release(cpu, pool.addresses, start, n, 1)
    chain.skip += n
    if chain.skip == pool.count[chunk]:
        chain.chunks.popleft()
        pool.drop(chunk)
        chain.skip = 0
    return n, n * around.prices.callback_invoke_ps // 1000 + around.allocator.price_ns


def _book(
    around: Surroundings,
    cpu: int,
    chain: Chain,
    part: Part,
    chunk: int,
    first: int,
    n: int,
    step: int,
    path: str,
) -> None:
    """Say that `n` objects of a chunk are about to be freed, and take them off all accounts."""
    pool = around.pool
    if around.probes.freeing:
        around.probes.freeing(cpu, pool.addresses, first, n, step, pool.newest[chunk])
    left = pool.count[chunk] - chain.skip
    size_bytes = _size_bytes(around, chunk, first, n, step, left)
    # which of them were queued when is not kept: a part of a chunk gets its share of the time
    queued_ns = pool.queued_ns[chunk] * n // left
    pool.size_bytes[chunk] -= size_bytes
    pool.queued_ns[chunk] -= queued_ns
    chain.objects -= n
    chain.size_bytes -= size_bytes
    around.books.free(part, n, size_bytes, path, pool.born_ns[chunk], queued_ns)


def _size_bytes(around: Surroundings, chunk: int, first: int, n: int, step: int, left: int) -> int:
    """Return what `n` of the `left` objects of a chunk occupy, by what was noted when they came."""
    pool, allocator = around.pool, around.allocator
    if n == left:
        return pool.size_bytes[chunk]
    if pool.object_bytes[chunk]:
        return n * pool.object_bytes[chunk]
    return sum(
        allocator.object_bytes(allocator.cache_of_object(int(pool.addresses[first + i * step])))
        for i in range(n)
    )
