"""What G1 and G2 have in common: a collection per CPU, a monitor, and slots that wait for a grace period.

Per CPU (``krc``) objects collect until the monitor, a delayed work armed once by the first of them,
hands everything to the first free slot and asks for a grace period with ``queue_rcu_work()``. With no
slot free the collection just grows and the monitor comes again. A slot is free again when its work
*starts*: what is being freed holds no slot.

A slot is usable only when all its channels are empty. The rule of 5.7 to 6.2, which looked at each
channel alone and could free objects too early, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import attrs

from rcusim.abc import Hold
from rcusim.engine.steps import state, step_prices, wiring
from rcusim.errors import InternalError
from rcusim.machine.workqueue import DelayedWork, WorkItem, delayed_work
from rcusim.reclaim.base import Surroundings
from rcusim.reclaim.books import Batch, Part
from rcusim.reclaim.chains import Chain
from rcusim.reclaim.freeing import free_block, free_newest

NO_PAGE = -1


@attrs.define(eq=False)
class RcuWorkCallback:
    """The callback of an ``rcu_work``: queues the work on the CPU that invokes it."""

    around: Surroundings
    work: ReclaimWork
    batch: Batch
    count: int = 1
    held: list[tuple[Hold, int]] = attrs.field(factory=list)

    def ready(self) -> None:
        """Note that the grace period is over."""
        self.around.books.gp_over(self.batch)

    def invoke(self, cpu: int, limit: int, budget_ns: int) -> tuple[int, int]:
        """Queue the work."""
        del limit, budget_ns
        self.count = 0
        self.around.kworkers[cpu].queue_item(self.work)
        return 1, self.around.prices.rcu_work_ns


@state
class Krc:
    """``struct kfree_rcu_cpu``: what a CPU has collected.

    Attributes
    ----------
    head : Chain
        The list through the objects: everything in G1, the emergency list in G2.
    blocks : Chain
        The blocks of G2; one chunk is one page.
    cached_frame : int
        The spare page (``bcached``), or -1.
    held_pages : list of int
        One number, shared by all CPUs: pages of blocks and caches.
    """

    around: Surroundings = wiring()
    cpu: int = 0
    lock: Hold = wiring()
    head: Chain = wiring()
    blocks: Chain = wiring()
    held_pages: list[int] = wiring()
    slots: list[ReclaimWork] = wiring(factory=list)
    work: DelayedWork = wiring(init=False)
    monitor_todo: bool = False
    cached_frame: int = NO_PAGE

    def arm_monitor(self) -> None:
        """Let the monitor come unless it will anyway: armed once per drain, by the first object."""
        if not self.monitor_todo:
            self.monitor_todo = True
            self.work.schedule(self.cpu, self.around.features.drain_jiffies)

    def collect(self, work: ReclaimWork) -> Batch:
        """Take everything collected as a batch that needs a grace period from now on."""
        around = self.around
        batch = Batch(
            work.name, self.blocks.take_all(), self.head.take_all(), around.rcu.snapshot()
        )
        books = around.books
        for part, chain in (
            (Part.COLLECTING_BLOCKS, batch.blocks),
            (Part.COLLECTING_LIST, batch.emergency),
        ):
            books.move(part, Part.WAITING_GP, chain.objects, chain.size_bytes)
        books.expect(batch)
        return batch

    def put_page(self, frame: int) -> None:
        """Keep a block's page as the spare one, or give it back."""
        if self.cached_frame == NO_PAGE and self.around.features.cached_pages:
            self.cached_frame = frame
        else:
            self.held_pages[0] -= 1
            self.around.pages.give(frame)


@state
class Monitor(WorkItem):
    """``kfree_rcu_monitor``: hands the collection to a slot."""

    STEPS: ClassVar[tuple[str, ...]] = ("drain",)

    krc: Krc = wiring()

    def drain(self) -> None:
        """Move everything to the first free slot, or come again later."""
        krc = self.krc
        self.held.append((krc.lock, self.prices["drain"][0]))
        self.sleep()
        krc.monitor_todo = False
        if not krc.head.objects and not krc.blocks.objects:
            return
        for work in krc.slots:
            if work.waiting is None:
                work.waiting = krc.collect(work)
                self.queue_rcu_work(work, work.waiting)
                return
        krc.arm_monitor()

    def queue_rcu_work(self, work: ReclaimWork, batch: Batch) -> None:
        """Ask for a grace period, after which `work` runs."""
        if work.pending:
            raise InternalError(f"{work.name} is pending although its slot is free")
        work.pending = True
        self.krc.around.rcu.call(self.cpu, RcuWorkCallback(self.krc.around, work, batch))


@state
class ReclaimWork(WorkItem):
    """``kfree_rcu_work``: frees the batch of one slot.

    ::

        detach -> free_block (one block a step) -> free_list (some objects a step) -> asleep
    """

    STEPS: ClassVar[tuple[str, ...]] = ("detach", "free_block", "free_list")

    krc: Krc = wiring()
    waiting: Batch | None = None
    batch: Batch | None = None

    def detach(self) -> None:
        """Take the batch; the slot is free from here on."""
        self.held.append((self.krc.lock, self.prices["detach"][0]))
        batch = self.batch = self.waiting
        self.waiting = None
        if batch is None:
            raise InternalError(f"{self.name} runs without a batch")
        self.krc.around.books.claim(batch, self.krc.around.rcu.state.root.gp_seq)
        self._go_on(batch)

    def free_block(self) -> int:
        """Free the newest block with one ``kfree_bulk()`` and recycle its page."""
        batch, around = self._batch, self.krc.around
        frame, price_ns = free_block(around, self.cpu, batch.blocks, batch.part)
        self.held.extend(around.allocator.held)
        self.krc.put_page(frame)
        self._go_on(batch)
        return price_ns + around.prices.page_free_ns

    def free_list(self) -> int:
        """Free some objects of the list, one ``kfree()`` each."""
        batch, around = self._batch, self.krc.around
        most = around.features.objects_per_step
        price_ns = free_newest(around, self.cpu, batch.emergency, batch.part, most)
        self.held.extend(around.allocator.held)
        self._go_on(batch)
        return price_ns

    @property
    def _batch(self) -> Batch:
        assert self.batch is not None
        return self.batch

    def _go_on(self, batch: Batch) -> None:
        if batch.blocks.objects:
            self.at = "free_block"
        elif batch.emergency.objects:
            self.at = "free_list"
        else:
            self.batch = None
            self.sleep()


@attrs.define(eq=False)
class Batching:
    """Base of G1 and G2: the per-CPU collections and their work items."""

    krc_class: ClassVar[type[Krc]] = Krc

    around: Surroundings
    held: list[tuple[Hold, int]] = attrs.field(factory=list)
    krcs: list[Krc] = attrs.field(factory=list)
    held_pages: list[int] = attrs.field(factory=lambda: [0])

    def __attrs_post_init__(self) -> None:
        self.krcs = [self._krc(cpu) for cpu in range(self.around.cpus)]
        self.around.probes.gp_ended.subscribe(self.gp_ended)

    def gp_ended(self, gp_seq: int) -> None:
        """Note, by ground truth, for whose callbacks a grace period was the one they wait for."""
        for data in self.around.rcu.data:
            for run in data.cblist.over(gp_seq):
                if isinstance(run, RcuWorkCallback):
                    run.ready()

    def _krc(self, cpu: int) -> Krc:
        around, name = self.around, f"cpu{cpu}/krc"
        krc = self.krc_class(
            around=around,
            cpu=cpu,
            lock=Hold(name=f"{name}.lock"),
            head=Chain(around.pool),
            blocks=Chain(around.pool),
            held_pages=self.held_pages,
        )
        monitor = Monitor(
            name=f"{name}/monitor",
            outbox=around.outbox,
            prices=step_prices(around.step_prices, Monitor),
            cpu=cpu,
            asleep=True,
            first="drain",
            krc=krc,
        )
        krc.work = delayed_work(around.kworkers, monitor, around.armed)
        krc.slots = [
            ReclaimWork(
                name=f"{name}/krw{slot}",
                outbox=around.outbox,
                prices=step_prices(around.step_prices, ReclaimWork),
                cpu=cpu,
                asleep=True,
                first="detach",
                krc=krc,
            )
            for slot in range(around.features.slots)
        ]
        return krc

    def block_pages(self) -> int:
        """Return the pages of blocks, cached ones included."""
        return self.held_pages[0]

    def recount_block_pages(self) -> int:
        """Return the same by walking all chains and caches."""
        pages = 0
        for krc in self.krcs:
            pages += len(krc.blocks.chunks) + (krc.cached_frame != NO_PAGE)
            for work in krc.slots:
                for batch in (work.waiting, work.batch):
                    if batch is not None:
                        pages += len(batch.blocks.chunks)
        return pages

    def chains(self) -> Iterator[tuple[Part, Chain]]:
        """Yield every chain with its part."""
        for krc in self.krcs:
            yield Part.COLLECTING_LIST, krc.head
            yield Part.COLLECTING_BLOCKS, krc.blocks
            for work in krc.slots:
                for batch in (work.waiting, work.batch):
                    if batch is not None:
                        yield batch.part, batch.blocks
                        yield batch.part, batch.emergency
