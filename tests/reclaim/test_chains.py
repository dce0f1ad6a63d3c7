from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rcusim._jit import integers
from rcusim.reclaim.chains import Chain, ChunkPool


def numbered(n: int, start: int = 0) -> tuple[object, int]:
    array = integers(n)
    for i in range(n):
        array[i] = start + i
    return array, n


def test_a_chain_keeps_the_order_of_arrival_across_chunks() -> None:
    pool = ChunkPool(4)
    chain = Chain(pool)
    array, n = numbered(10)
    chain.extend(5, array, 0, n, 128)  # type: ignore[arg-type]
    assert chain.slots() == list(range(10))
    assert (chain.objects, chain.size_bytes, len(chain.chunks)) == (10, 1280, 3)
    assert [pool.count[chunk] for chunk in chain.chunks] == [4, 4, 2]
    assert chain.recount() == 10


def test_taking_all_leaves_an_empty_chain_that_starts_a_new_chunk() -> None:
    pool = ChunkPool(4)
    chain = Chain(pool)
    array, _ = numbered(10)
    chain.extend(0, array, 0, 2, 1)  # type: ignore[arg-type]
    taken = chain.take_all()
    chain.extend(0, array, 2, 1, 1)  # type: ignore[arg-type]
    assert (taken.slots(), chain.slots()) == ([0, 1], [2])
    assert taken.chunks[0] != chain.chunks[0]


def test_a_chunk_knows_its_first_time_and_its_newest_stamp() -> None:
    pool = ChunkPool(8)
    chain = Chain(pool)
    array, _ = numbered(4)
    pool.stamp = 1
    chain.extend(100, array, 0, 2, 1)  # type: ignore[arg-type]
    pool.stamp = 2
    chain.extend(200, array, 2, 2, 1)  # type: ignore[arg-type]
    chunk = chain.chunks[0]
    assert (pool.born_ns[chunk], pool.newest[chunk]) == (100, 2)


@given(st.integers(1, 7), st.lists(st.integers(0, 20), max_size=30))
def test_chunks_are_recycled_and_never_shared(capacity: int, sizes: list[int]) -> None:
    pool = ChunkPool(capacity)
    chains = []
    expected = []
    for index, size in enumerate(sizes):
        chain = Chain(pool)
        array, _ = numbered(size, start=1000 * index)
        chain.extend(0, array, 0, size, 1)  # type: ignore[arg-type]
        chains.append(chain)
        expected.append([1000 * index + i for i in range(size)])
        if index % 3 == 2:  # a whole chain goes
            for chunk in chains.pop(0).chunks:
                pool.drop(chunk)
            expected.pop(0)
        assert [chain.slots() for chain in chains] == expected
