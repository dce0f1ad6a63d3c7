"""Which part of the footprint each object is in, as the reclaim code itself says it.

The books are one of three independent accounts of the same objects; the oracles compare them with the
allocator's counters, with a walk over every chunk, and with the page allocator.
"""

from __future__ import annotations

import enum
from collections.abc import Callable

import attrs

from rcusim.errors import PropertyViolation
from rcusim.rcu import seq
from rcusim.reclaim.chains import Chain


class Part(enum.IntEnum):
    """Where an object is between its allocation and its return to the allocator."""

    LIVE = 0
    COLLECTING_LIST = 1
    COLLECTING_BLOCKS = 2
    WAITING_GP = 3
    WAITING_WORKER = 4


@attrs.define(eq=False)
class Batch:
    """Objects that wait for one grace period together: blocks and a list.

    Attributes
    ----------
    needed_seq : int
        Value of ``rcu_state.gp_seq`` at which a whole grace period has passed.
    part : Part
        WAITING_GP, and WAITING_WORKER from the end of the grace period to which its callback was
        assigned: the one it needs, or a later one if the CPU was slow to ask.
    """

    name: str
    blocks: Chain
    emergency: Chain
    needed_seq: int
    part: Part = Part.WAITING_GP

    @property
    def objects(self) -> int:
        """How many objects are left."""
        return self.blocks.objects + self.emergency.objects

    @property
    def size_bytes(self) -> int:
        """What they occupy, at class size."""
        return self.blocks.size_bytes + self.emergency.size_bytes


@attrs.define(eq=False)
class Books:
    """Objects and bytes by part, and statistics of the way between the parts.

    Attributes
    ----------
    objects, size_bytes : list of int
        By :class:`Part`.
    """

    now_ns: Callable[[], int]
    objects: list[int] = attrs.field(factory=lambda: [0] * len(Part))
    size_bytes: list[int] = attrs.field(factory=lambda: [0] * len(Part))
    allocated: int = 0
    queued: int = 0
    freed: int = 0
    emergency: int = 0
    in_flight_peak: int = 0
    blocks_filled: int = 0
    block_objects: int = 0
    wait_ns_max: int = 0
    wait_ns_sum: int = 0
    freed_by: dict[str, int] = attrs.field(factory=dict)

    @property
    def total_objects(self) -> int:
        """All objects that are out."""
        return sum(self.objects)

    def allocate(self, objects: int, size_bytes: int) -> None:
        """Book new objects as live."""
        self.allocated += objects
        self.objects[Part.LIVE] += objects
        self.size_bytes[Part.LIVE] += size_bytes

    def queue(self, part: Part, objects: int, size_bytes: int) -> None:
        """Book live objects that were given to ``kfree_rcu()``."""
        self.queued += objects
        self.move(Part.LIVE, part, objects, size_bytes)
        self.in_flight_peak = max(self.in_flight_peak, self.queued - self.freed)

    def move(self, source: Part, target: Part, objects: int, size_bytes: int) -> None:
        """Book objects from one part to another."""
        self.objects[source] -= objects
        self.objects[target] += objects
        self.size_bytes[source] -= size_bytes
        self.size_bytes[target] += size_bytes

    def free(
        self, part: Part, objects: int, size_bytes: int, path: str, born_ns: int, queued_ns: int
    ) -> None:
        """Book objects that go back to the allocator by `path`.

        The oldest was queued at `born_ns`; `queued_ns` is the sum of that time over all of them.
        """
        self.freed += objects
        self.objects[part] -= objects
        self.size_bytes[part] -= size_bytes
        self.freed_by[path] = self.freed_by.get(path, 0) + objects
        now_ns = self.now_ns()
        self.wait_ns_max = max(self.wait_ns_max, now_ns - born_ns)
        self.wait_ns_sum += now_ns * objects - queued_ns

    def expect(self, batch: Batch) -> None:
        """Count what a batch that begins to wait for its grace period consists of."""
        self.blocks_filled += len(batch.blocks.chunks)
        self.block_objects += batch.blocks.objects

    def gp_over(self, batch: Batch) -> None:
        """Move a batch whose grace period is over to those that wait for a worker."""
        if batch.part is Part.WAITING_GP:
            batch.part = Part.WAITING_WORKER
            self.move(Part.WAITING_GP, Part.WAITING_WORKER, batch.objects, batch.size_bytes)

    def claim(self, batch: Batch, root_gp_seq: int) -> None:
        """Note that a worker begins to free `batch`.

        CPUs may invoke callbacks from the moment at which their node says that the grace period is
        over, the root first; the official number follows after the last node.

        Raises
        ------
        PropertyViolation
            When no whole grace period has passed since it was handed over.
        """
        if not seq.done(root_gp_seq, batch.needed_seq):
            oldest = (batch.blocks.slots() or batch.emergency.slots())[0]
            raise PropertyViolation(
                "callback law",
                self.now_ns(),
                f"object {oldest:#x} of {batch.name} is freed before its grace period {batch.needed_seq} is over",
            )
