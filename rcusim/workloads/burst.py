"""Bursts: producers that allocate at a rate for a while, hold each object for a time, queue it, and pause."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import attrs

from rcusim._jit import IntArray, integers
from rcusim.engine.steps import Machine
from rcusim.reclaim.chains import Chain, ChunkPool
from rcusim.units import MS_NS, S_NS
from rcusim.workloads.base import Field, Outcome, Patience
from rcusim.workloads.programs import ProgramThread

HELD_CHUNK_OBJECTS = 128


@attrs.frozen
class BurstSetting:
    """Parameters of the workload.

    Attributes
    ----------
    threads : int
        Producers, one per CPU from CPU 0.
    rate_per_second : int
        Objects per second of each while a burst lasts; a CPU that cannot keep up does what it can.
    sizes_bytes, weights : tuple of int
        Sizes of the requests, drawn with these weights.
    live_ms : int
        Time between allocation and ``kfree_rcu()``.
    """

    threads: int
    rate_per_second: int
    duration_ms: int
    pause_ms: int
    bursts: int
    sizes_bytes: tuple[int, ...]
    weights: tuple[int, ...]
    live_ms: int
    objects_per_turn: int
    nice: int

    @property
    def objects_per_burst(self) -> int:
        """Objects of one producer in one burst."""
        return max(1, self.rate_per_second * self.duration_ms // 1000)


@attrs.define(eq=False)
class HeldObjects:
    """Objects of one cache that a producer holds until their time has come."""

    due_ns: int
    cache: int
    chain: Chain


@attrs.define(eq=False)
class BurstWorkload:
    """The producers."""

    setting: BurstSetting
    field: Field
    outcome: Outcome = attrs.field(factory=Outcome)
    threads: list[ProgramThread] = attrs.field(factory=list)
    held_objects: int = 0
    _caches: list[int] = attrs.field(factory=list)

    def build(self, first_actor_id: int) -> Sequence[Machine]:
        """Return the producers' machines, asleep."""
        field = self.field
        self._caches = [field.allocator.cache_of(size) for size in self.setting.sizes_bytes]
        self.threads = [
            ProgramThread.build(
                field, f"burst/{i}", i % field.cpus, self._produce, actor_id=first_actor_id + i
            )
            for i in range(self.setting.threads)
        ]
        self.outcome.running = len(self.threads)
        return [thread.program for thread in self.threads]

    def start_delays_ns(self) -> list[int]:
        """Return when each producer first runs: drawn from the seed, within a millisecond."""
        return [
            self.field.choices.choose(MS_NS, f"{thread.program.name} start")
            for thread in self.threads
        ]

    def objects(self) -> int:
        """Return how many objects the workload handles in all."""
        return self.setting.threads * self.setting.bursts * self.setting.objects_per_burst

    def may_go_on(self) -> bool:
        """Return whether a thread runs or waits for a time that will come."""
        return any(not thread.program.asleep or thread.alarm.entry >= 0 for thread in self.threads)

    def live_objects(self) -> int:
        """Return the objects that producers hold."""
        return self.held_objects

    async def _produce(self, thread: ProgramThread) -> None:
        setting, field = self.setting, self.field
        self.outcome.started(field.now_ns())
        producer = Producer(self, thread, ChunkPool(HELD_CHUNK_OBJECTS))
        burst_ns = (setting.duration_ms + setting.pause_ms) * MS_NS
        begin_ns = field.now_ns()
        for burst in range(setting.bursts):
            if not await producer.burst(begin_ns + burst * burst_ns):
                self.outcome.failed.append(thread.program.name)
                break
        await producer.queue_rest()
        self.outcome.ended()

    def draw(self, thread: ProgramThread, n: int) -> list[int]:
        """Return how many of the next `n` objects of a thread are of each size."""
        counts = [0] * len(self._caches)
        if len(counts) == 1:
            counts[0] = n
            return counts
        total = sum(self.setting.weights)
        why = f"{thread.program.name} sizes"
        for _ in range(n):
            ticket = self.field.choices.choose(total, why)
            for kind, weight in enumerate(self.setting.weights):
                ticket -= weight
                if ticket < 0:
                    counts[kind] += 1
                    break
        return counts

    def cache(self, kind: int) -> int:
        """Return the cache of the `kind`-th size."""
        return self._caches[kind]


@attrs.define(eq=False)
class Producer:
    """One thread of the workload and what it holds."""

    workload: BurstWorkload
    thread: ProgramThread
    pool: ChunkPool
    waiting: deque[HeldObjects] = attrs.field(factory=deque)

    async def burst(self, begin_ns: int) -> bool:
        """Produce one burst from `begin_ns` on; return false when memory could not be had."""
        setting = self.workload.setting
        done, total = 0, setting.objects_per_burst
        while done < total:
            await self.sleep_until(begin_ns + done * S_NS // setting.rate_per_second)
            n = min(setting.objects_per_turn, total - done)
            for kind, count in enumerate(self.workload.draw(self.thread, n)):
                if count and not await self._make(self.workload.cache(kind), count):
                    return False
            done += n
        return True

    async def _make(self, cache: int, n: int) -> bool:
        """Allocate `n` objects, with patience, and queue them now or later."""
        field, setting, program = self.workload.field, self.workload.setting, self.thread.program
        buffer = integers(n)
        patience = Patience(field.pages, field.now_ns)
        left = n
        while left:
            got, price_ns = field.allocate(program, cache, left, buffer, 0)
            if got and setting.live_ms:
                self._hold(cache, buffer, got)
            elif got:
                price_ns += field.queue(program, cache, buffer, 0, got)
            left -= got
            if got:
                patience.succeeded()
            await self.thread.run(price_ns)
            if left:
                if patience.exhausted():
                    return False
                await self.sleep_until(field.now_ns() + field.scheduler.jiffy_ns)
        return True

    def _hold(self, cache: int, buffer: IntArray, n: int) -> None:
        field = self.workload.field
        now_ns = field.now_ns()
        chain = Chain(self.pool)
        chain.extend(now_ns, buffer, 0, n, 1)
        self.waiting.append(
            HeldObjects(now_ns + self.workload.setting.live_ms * MS_NS, cache, chain)
        )
        self.workload.held_objects += n

    async def sleep_until(self, at_ns: int) -> None:
        """Sleep until an instant, but queue what falls due before it."""
        while self.waiting and self.waiting[0].due_ns <= at_ns:
            await self.thread.sleep_until(self.waiting[0].due_ns)
            await self._queue_first()
        await self.thread.sleep_until(at_ns)

    async def queue_rest(self) -> None:
        """Queue everything that is held, each at its time."""
        while self.waiting:
            await self.thread.sleep_until(self.waiting[0].due_ns)
            await self._queue_first()

    async def _queue_first(self) -> None:
        held = self.waiting.popleft()
        price_ns = 0
        for chunk in held.chain.chunks:
            n = self.pool.count[chunk]
            start = chunk * self.pool.capacity
            price_ns += self.workload.field.queue(
                self.thread.program, held.cache, self.pool.addresses, start, n
            )
            self.workload.held_objects -= n
            self.pool.drop(chunk)
        await self.thread.run(price_ns)
