"""Stand-ins for rooms that a test is not about."""

from __future__ import annotations

import attrs

from rcusim._jit import IntArray
from rcusim.abc import Hold
from rcusim.machine.pages import PageAllocator

OBJECTS_PER_SLAB = 32
OBJECT_BYTES = 128


@attrs.define(eq=False)
class SimpleAllocator:
    """One cache of 128-byte objects, 32 per page; a page goes back when its last object does."""

    pages_of_machine: PageAllocator
    price_ns: int = 0
    held: list[tuple[Hold, int]] = attrs.field(factory=list)
    free: dict[int, list[int]] = attrs.field(factory=dict)
    used: dict[int, int] = attrs.field(factory=dict)
    out: int = 0
    log: list[str] = attrs.field(factory=list)

    def cache_of(self, size_bytes: int) -> int:
        assert size_bytes <= OBJECT_BYTES
        return 0

    def object_bytes(self, cache: int) -> int:
        assert cache == 0
        return OBJECT_BYTES

    def address_bound(self) -> int:
        return self.pages_of_machine.frames * OBJECTS_PER_SLAB

    def allocate(self, cpu: int, cache: int, n: int, out: IntArray, first: int) -> int:
        del cpu, cache
        for i in range(n):
            if not self.free:
                frame = self.pages_of_machine.take(0, self.pages_of_machine.watermarks.min_pages)
                if frame < 0:
                    return i
                self.free[frame] = list(range(OBJECTS_PER_SLAB - 1, -1, -1))
                self.used[frame] = 0
            frame = next(iter(self.free))
            out[first + i] = frame * OBJECTS_PER_SLAB + self.free[frame].pop()
            if not self.free[frame]:
                del self.free[frame]
            self.used[frame] += 1
            self.out += 1
        self.price_ns = 100 * n
        return n

    def release(self, cpu: int, addresses: IntArray, first: int, n: int, step: int) -> None:
        self.log.append(f"kfree {n} on {cpu}")
        self._release(addresses, first, n, step)

    def release_bulk(self, cpu: int, addresses: IntArray, first: int, n: int) -> None:
        self.log.append(f"kfree_bulk {n} on {cpu}")
        self._release(addresses, first, n, 1)

    def _release(self, addresses: IntArray, first: int, n: int, step: int) -> None:
        for i in range(n):
            frame, index = divmod(int(addresses[first + i * step]), OBJECTS_PER_SLAB)
            self.free.setdefault(frame, []).append(index)
            self.used[frame] -= 1
            self.out -= 1
            if not self.used[frame]:
                del self.free[frame], self.used[frame]
                self.pages_of_machine.give(frame)
        self.price_ns = 100 * n

    def reap(self, cpu: int, now_ns: int) -> None:
        del cpu, now_ns

    def handed_out_objects(self) -> int:
        return self.out

    def handed_out_bytes(self) -> int:
        return self.out * OBJECT_BYTES

    def recount_objects(self) -> int:
        return sum(self.used.values())

    def pages(self) -> int:
        return len(self.used)

    def recount_pages(self) -> int:
        return len(self.used)

    def drained_pages_most(self) -> int:
        return 0

    def cache_of_object(self, address: int) -> int:
        assert address >= 0
        return 0

    def locks(self) -> list[Hold]:
        return []

    def counters(self) -> dict[str, int]:
        return {"objects_out": self.out}
