"""A generation with a hand-driven RCU below it and a simple allocator: every step by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs

from rcusim._jit import IntArray, integers
from rcusim.abc import Callbacks
from rcusim.engine.steps import Machine, Timer
from rcusim.machine.pages import PageAllocator
from rcusim.machine.workqueue import Kworker
from rcusim.probes import Probes
from rcusim.reclaim.base import Features, ReclaimPrices, Surroundings
from rcusim.reclaim.books import Books, Part
from rcusim.reclaim.chains import ChunkPool
from tests.doubles import OBJECT_BYTES, SimpleAllocator

STEP_PRICES = {
    "Monitor": {"drain": (10, 0)},
    "ReclaimWork": {"detach": (10, 0), "free_block": (0, 1), "free_list": (0, 1)},
}


@attrs.define(eq=False)
class HandRcu:
    """Callback lists without grace periods: :meth:`end` lets one pass."""

    gp_seq: int = 0
    lists: dict[int, list[Callbacks]] = attrs.field(factory=dict)
    requests: int = 0
    data: tuple[()] = ()

    @property
    def state(self) -> Any:
        return SimpleNamespace(root=SimpleNamespace(gp_seq=self.gp_seq))

    def snapshot(self) -> int:
        return self.gp_seq + 4

    def call(self, cpu: int, entry: Callbacks) -> None:
        self.requests += 1
        self.lists.setdefault(cpu, []).append(entry)

    def extend(self, cpu: int, added: int) -> None:
        assert added > 0
        assert self.lists[cpu]

    def next_tail(self, cpu: int) -> Callbacks | None:
        return self.lists[cpu][-1] if self.lists.get(cpu) else None


@attrs.define(eq=False)
class Rig:
    make: Any
    cpus: int = 1
    memory_mib: int = 16
    slots: int = 2
    entries: int = 4
    cached_pages: int = 1
    objects_per_step: int = 100
    now_ns: int = 0
    rcu: HandRcu = attrs.field(factory=HandRcu)
    probes: Probes = attrs.field(factory=Probes)
    outbox: list[Machine] = attrs.field(factory=list)
    armed: list[Timer] = attrs.field(factory=list)
    freed: list[int] = attrs.field(factory=list)
    pages: PageAllocator = attrs.field(init=False)
    allocator: SimpleAllocator = attrs.field(init=False)
    books: Books = attrs.field(init=False)
    kworkers: list[Kworker] = attrs.field(init=False)
    generation: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.pages = PageAllocator(self.memory_mib)
        self.allocator = SimpleAllocator(self.pages)
        self.books = Books(lambda: self.now_ns)
        self.kworkers = [
            Kworker(
                name=f"kw{cpu}", outbox=self.outbox, prices={"take": (1, 0)}, cpu=cpu, asleep=True
            )
            for cpu in range(self.cpus)
        ]
        self.probes.freeing.subscribe(self._freeing)
        self.generation = self.make(
            Surroundings(
                cpus=self.cpus,
                features=Features(
                    drain_jiffies=5,
                    slots=self.slots,
                    block_entries=self.entries,
                    cached_pages=self.cached_pages,
                    objects_per_step=self.objects_per_step,
                ),
                prices=ReclaimPrices(*[1000] * len(attrs.fields(ReclaimPrices))),
                step_prices=STEP_PRICES,
                rcu=self.rcu,  # type: ignore[arg-type]
                kworkers=self.kworkers,
                allocator=self.allocator,
                pages=self.pages,
                pool=ChunkPool(self.entries),
                books=self.books,
                probes=self.probes,
                outbox=self.outbox,
                armed=self.armed,
                now_ns=lambda: self.now_ns,
            )
        )

    def _freeing(
        self, cpu: int, addresses: IntArray, first: int, n: int, step: int, newest: int
    ) -> None:
        del cpu, newest
        self.freed.extend(int(addresses[first + i * step]) for i in range(n))

    def queue(self, n: int, cpu: int = 0) -> list[int]:
        """Allocate `n` objects and queue them; return their addresses."""
        buffer = integers(n)
        assert self.allocator.allocate(cpu, 0, n, buffer, 0) == n
        self.books.allocate(n, n * OBJECT_BYTES)
        self.generation.queue(cpu, buffer, 0, n, OBJECT_BYTES)
        return [int(buffer[i]) for i in range(n)]

    def fire_timers(self) -> int:
        """Let every armed timer expire and the kworkers run; return how many timers there were."""
        timers = [timer for timer in self.armed if timer.pending]
        self.armed.clear()
        for timer in timers:
            timer.expire()
        self.work()
        return len(timers)

    def work(self) -> None:
        """Run all kworkers until they sleep."""
        for worker in self.kworkers:
            while not worker.asleep:
                worker.step()

    def end(self, cpu: int = 0, *, work: bool = True) -> None:
        """Let a grace period pass: all callbacks of a CPU are ready and invoked."""
        self.rcu.gp_seq += 4
        entries = self.rcu.lists.pop(cpu, [])
        for entry in entries:
            entry.ready()
        for entry in entries:
            while entry.count:
                invoked, _price = entry.invoke(cpu, 100, 0)
                assert invoked >= 1
        if work:
            self.work()

    def parts(self) -> dict[str, int]:
        """Return the parts that hold objects, recounted from the chains."""
        counted: dict[str, int] = {}
        for part, chain in self.generation.chains():
            if chain.recount():
                counted[part.name] = counted.get(part.name, 0) + chain.recount()
        booked = {part.name: self.books.objects[part] for part in Part if self.books.objects[part]}
        assert counted == booked
        assert self.generation.recount_block_pages() == self.generation.block_pages()
        return counted
