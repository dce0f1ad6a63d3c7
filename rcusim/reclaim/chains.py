"""Where queued objects stand: chains of chunks of addresses, in order of arrival.

A chunk is one row of a flat array. It stands for a page-sized block of pointers of the kernel, or for a
piece of a list that the kernel links through the objects themselves; lists need no memory of their own.
Objects of one chunk share a grace period: a chain is always handed over whole.
"""

from __future__ import annotations

from collections import deque

import attrs

from rcusim._jit import IntArray, grown, integers


@attrs.define(eq=False)
class ChunkPool:
    """All chunks of a world.

    Parameters
    ----------
    capacity : int
        Addresses per chunk.

    Attributes
    ----------
    addresses : IntArray
        Chunk ``c`` holds ``addresses[c * capacity : c * capacity + count[c]]``.
    newest : list of int
        Stamp of the newest object of each chunk: the number of queue operations so far.
    born_ns, queued_ns : list of int
        When the first object of each chunk was queued; the sum of that time over all its objects.
    size_bytes, object_bytes : list of int
        What the objects of each chunk occupy; what one of them does, 0 when they differ.
    """

    capacity: int
    stamp: int = 0
    addresses: IntArray = attrs.field(init=False)
    count: list[int] = attrs.field(factory=list)
    newest: list[int] = attrs.field(factory=list)
    born_ns: list[int] = attrs.field(factory=list)
    queued_ns: list[int] = attrs.field(factory=list)
    frame: list[int] = attrs.field(factory=list)
    size_bytes: list[int] = attrs.field(factory=list)
    object_bytes: list[int] = attrs.field(factory=list)
    _free: list[int] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.addresses = integers(0)

    def new(self, now_ns: int, frame: int = -1) -> int:
        """Return an empty chunk; `frame` is the page of a block, -1 for a piece of a list."""
        if not self._free:
            self._grow()
        chunk = self._free.pop()
        self.count[chunk] = self.size_bytes[chunk] = self.queued_ns[chunk] = 0
        self.object_bytes[chunk] = -1
        self.born_ns[chunk] = now_ns
        self.frame[chunk] = frame
        return chunk

    def drop(self, chunk: int) -> None:
        """Take a chunk back."""
        self._free.append(chunk)

    def _grow(self) -> None:
        have = len(self.count)
        more = max(64, have)
        self.addresses = grown(self.addresses, (have + more) * self.capacity)
        for column in (
            self.count,
            self.newest,
            self.born_ns,
            self.queued_ns,
            self.frame,
            self.size_bytes,
            self.object_bytes,
        ):
            column.extend([0] * more)
        self._free.extend(range(have + more - 1, have - 1, -1))

    def append(
        self, chunk: int, addresses: IntArray, first: int, n: int, object_bytes: int, now_ns: int
    ) -> int:
        """Copy up to `n` addresses behind those of `chunk`; return how many there was room for."""
        count = self.count[chunk]
        n = min(n, self.capacity - count)
        start = chunk * self.capacity + count
        self.addresses[start : start + n] = addresses[first : first + n]  # type: ignore[index] # slices work on lists and ndarrays alike
        self.count[chunk] = count + n
        self.newest[chunk] = self.stamp
        self.size_bytes[chunk] += n * object_bytes
        self.queued_ns[chunk] += n * now_ns
        if self.object_bytes[chunk] != object_bytes:
            self.object_bytes[chunk] = object_bytes if count == 0 else 0
        return n


@attrs.define(eq=False)
class Chain:
    """A list of objects, oldest chunk left.

    Attributes
    ----------
    objects : int
        How many objects are on it.
    size_bytes : int
        What they occupy, at class size.
    skip : int
        Objects of the oldest chunk that are gone already (taken from the front).
    """

    pool: ChunkPool
    chunks: deque[int] = attrs.field(factory=deque)
    objects: int = 0
    size_bytes: int = 0
    skip: int = 0

    def extend(
        self, now_ns: int, addresses: IntArray, first: int, n: int, object_bytes: int
    ) -> None:
        """Append `n` objects to a list that needs no memory."""
        pool = self.pool
        self.objects += n
        self.size_bytes += n * object_bytes
        while n > 0:
            if not self.chunks or pool.count[self.chunks[-1]] == pool.capacity:
                self.chunks.append(pool.new(now_ns))
            stored = pool.append(self.chunks[-1], addresses, first, n, object_bytes, now_ns)
            first += stored
            n -= stored

    def take_all(self) -> Chain:
        """Return everything as a new chain and be empty."""
        taken = Chain(self.pool, self.chunks, self.objects, self.size_bytes, self.skip)
        self.chunks = deque()
        self.objects = self.size_bytes = self.skip = 0
        return taken

    def recount(self) -> int:
        """Return the number of objects by looking at every chunk."""
        return sum(self.pool.count[chunk] for chunk in self.chunks) - self.skip

    def slots(self) -> list[int]:
        """Return the address of every object: slow, for diagnosis and tests."""
        pool = self.pool
        found: list[int] = []
        for chunk in self.chunks:
            start = chunk * pool.capacity
            found.extend(int(pool.addresses[start + i]) for i in range(pool.count[chunk]))
        return found[self.skip :]
