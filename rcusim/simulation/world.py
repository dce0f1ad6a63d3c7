"""Building a world from a scenario: every room gets what it needs, once, in a fixed order.

Nothing here decides anything during a run. :class:`Parts` names the class of each role, so that a test, a
mutant or a user's own code takes the place of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from rcusim.abc import Allocator
from rcusim.engine.choices import SeededChoices
from rcusim.engine.clock import Engine
from rcusim.engine.steps import Machine, Timer, step_prices
from rcusim.errors import Problem, ScenarioError
from rcusim.machine import platform as platforms
from rcusim.machine.context import CpuContext
from rcusim.machine.cpu import Alarm, Cpu, CpuPrices, Ksoftirqd, Scheduler, Tick, TimerSoftirq
from rcusim.machine.pages import PageAllocator
from rcusim.machine.platform import Platform
from rcusim.machine.threads import CfsTunables
from rcusim.machine.workqueue import Kworker
from rcusim.probes import Probes
from rcusim.rcu.config import RcuConfig
from rcusim.rcu.rcu import Parts as RcuParts
from rcusim.rcu.rcu import Rcu
from rcusim.reclaim.base import Features, Generation, ReclaimPrices, Surroundings
from rcusim.reclaim.books import Books
from rcusim.reclaim.chains import ChunkPool
from rcusim.reclaim.g0 import CallRcuEach
from rcusim.reclaim.g1 import BasicBatching
from rcusim.reclaim.g2 import BulkBlocks
from rcusim.scenario import BurstWorkload as BurstTable
from rcusim.scenario import RcuscaleWorkload as RcuscaleTable
from rcusim.scenario import Scenario
from rcusim.scenario.rules import loops_of, threads_of
from rcusim.slab.reaper import start_reapers
from rcusim.slab.slab import Slab, SlabPrices
from rcusim.slab.slub import Slub, SlubPrices
from rcusim.units import MS_NS, PAGES_PER_MIB, US_NS, jiffy_ns
from rcusim.workloads.base import Field, Outcome
from rcusim.workloads.burst import BurstSetting, BurstWorkload
from rcusim.workloads.rcuscale import KfreeTest, RcuscaleSetting
from rcusim.workloads.readers import ReaderKind, ReadersSetting, ReadersWorkload

TICK_JITTER_NS = 10 * US_NS
"""Ticks of different CPUs are up to so much off their nominal phase; drawn from the seed."""

MOST_PER_TURN = 1_000_000
"""A thread's buffer is not larger than this, however long its loop."""

CHUNK_OBJECTS = 510
"""Most objects that are kept, and freed in one step, together: those of the largest block."""

GENERATIONS: Mapping[str, Callable[[Surroundings], Generation]] = {
    "G0": CallRcuEach,
    "G1": BasicBatching,
    "G2": BulkBlocks,
}


def make_slab(
    scenario: Scenario, platform: Platform, pages: PageAllocator, slab_class: type[Slab] = Slab
) -> Allocator:
    """Return the slab allocator that a scenario names."""
    if scenario.slab.allocator != "slab":
        return Slub(
            pages=pages,
            cpus=scenario.machine.cpus,
            rules=scenario.slab.allocator,
            minimum_bytes=scenario.slab.kmalloc_minimum_bytes,
            sizes_bytes=_sizes_bytes(scenario),
            prices=SlubPrices(**platform.values["Slub"]),
        )
    return slab_class(
        pages=pages,
        cpus=scenario.machine.cpus,
        layout=scenario.slab.layout,
        minimum_bytes=scenario.slab.kmalloc_minimum_bytes,
        sizes_bytes=_sizes_bytes(scenario),
        prices=SlabPrices(**platform.values["Slab"]),
    )


@attrs.frozen
class Parts:
    """The class for each role of a world.

    Attributes
    ----------
    rcu : RcuParts
        Classes of the RCU machinery.
    generation : callable or None
        Makes the generation; None is the scenario's.
    allocator : callable
        Makes the allocator.
    inline : bool
        Take steps of plain machines without a task switch; the result is the same.
    """

    rcu: RcuParts = attrs.field(factory=RcuParts)
    generation: Callable[[Surroundings], Generation] | None = None
    allocator: Callable[[Scenario, Platform, PageAllocator], Allocator] = attrs.field(
        default=make_slab
    )
    inline: bool = True


@attrs.define(eq=False)
class World:
    """Everything of a run."""

    scenario: Scenario
    platform: Platform
    engine: Engine
    scheduler: Scheduler
    choices: SeededChoices
    probes: Probes
    pages: PageAllocator
    allocator: Allocator
    rcu: Rcu
    kworkers: list[Kworker]
    books: Books
    pool: ChunkPool
    generation: Generation
    field: Field
    other_pages: int
    workload: KfreeTest | BurstWorkload | None = None
    readers: ReadersWorkload | None = None
    machines: list[Machine] = attrs.field(factory=list)
    alarms: list[tuple[Alarm, int]] = attrs.field(factory=list)

    def now_ns(self) -> int:
        """Return the virtual time."""
        return self.engine.now_ns

    @property
    def outcome(self) -> Outcome:
        """How the workload stands; a world without one has always ended."""
        return self.workload.outcome if self.workload is not None else Outcome()

    def objects_total(self) -> int:
        """Return how many objects the workload will handle."""
        return self.workload.objects() if self.workload is not None else 0

    def drain_jiffies(self) -> int:
        """Return the delay of the monitor: an object may wait so long for nothing else."""
        return self.generation.around.features.drain_jiffies

    def workload_over(self) -> bool:
        """Return whether all workload threads and readers have ended."""
        readers = self.readers.running if self.readers is not None else 0
        return self.outcome.running == 0 and readers == 0

    def workload_waits_for_nothing(self) -> bool:
        """Return whether workload threads are left and none of them can ever go on."""
        starting = any(alarm.entry >= 0 for alarm, _ in self.alarms)
        return (
            self.workload is not None
            and self.outcome.running > 0
            and not starting
            and not self.workload.may_go_on()
        )

    def start(self) -> None:
        """Set the first appointments."""
        self.scheduler.start([machine for machine in self.machines if not machine.asleep])
        for alarm, delay_ns in self.alarms:
            self.engine.schedule(alarm, delay_ns)


@attrs.define(eq=False)
class Ids:
    """Hands out actor ids in the order of building."""

    last: int = 0

    def next(self) -> int:
        """Return a new id."""
        self.last += 1
        return self.last


def build(scenario: Scenario, parts: Parts | None = None) -> World:
    """Return the world of a scenario.

    Raises
    ------
    ScenarioError
        When parts of the scenario do not fit together.
    """
    parts = parts if parts is not None else Parts()
    return _Builder(scenario, parts).build()


@attrs.define(eq=False)
class _Builder:
    """Holds what is shared while a world is built."""

    scenario: Scenario
    parts: Parts
    outbox: list[Machine] = attrs.field(factory=list)
    armed: list[Timer] = attrs.field(factory=list)
    ids: Ids = attrs.field(factory=Ids)
    probes: Probes = attrs.field(factory=Probes)
    platform: Platform = attrs.field(init=False)
    engine: Engine = attrs.field(init=False)
    choices: SeededChoices = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.platform = platforms.load(self.scenario.machine.platform)
        self.engine = Engine(inline=self.parts.inline)
        self.choices = SeededChoices(self.scenario.seed)

    def now_ns(self) -> int:
        return self.engine.now_ns

    def build(self) -> World:
        scenario = self.scenario
        pages, other_pages = self._pages()
        contexts = [
            CpuContext(cpu=cpu, slowdown_permille=self.platform.slowdown(cpu))
            for cpu in range(scenario.machine.cpus)
        ]
        rcu = self._rcu(contexts)
        scheduler = self._scheduler(contexts, rcu)
        kworkers = self._kworkers(scheduler)
        allocator = self.parts.allocator(scenario, self.platform, pages)
        books, pool = (
            Books(self.now_ns),
            ChunkPool(CHUNK_OBJECTS),
        )
        around = Surroundings(
            cpus=scenario.machine.cpus,
            features=self._features(),
            prices=ReclaimPrices(**self.platform.values["Reclaim"]),
            step_prices=self.platform.steps,
            rcu=rcu,
            kworkers=kworkers,
            allocator=allocator,
            pages=pages,
            pool=pool,
            books=books,
            probes=self.probes,
            outbox=self.outbox,
            armed=self.armed,
            now_ns=self.now_ns,
        )
        start_reapers(
            allocator,
            kworkers,
            outbox=self.outbox,
            armed=self.armed,
            prices=self.platform.steps,
            now_ns=self.now_ns,
            jiffy_ns=scheduler.jiffy_ns,
            hz=scenario.kernel.hz,
        )
        make = self.parts.generation or GENERATIONS[scenario.reclaim.generation]
        generation = make(around)
        field = Field(
            cpus=scenario.machine.cpus,
            engine=self.engine,
            scheduler=scheduler,
            choices=self.choices,
            rcu=rcu,
            allocator=allocator,
            generation=generation,
            pages=pages,
            books=books,
            probes=self.probes,
            step_prices=self.platform.steps,
            outbox=self.outbox,
            armed=self.armed,
            now_ns=self.now_ns,
        )
        world = World(
            scenario, self.platform, self.engine, scheduler, self.choices, self.probes, pages, allocator,
            rcu, kworkers, books, pool, generation, field, other_pages,
        )  # fmt: skip
        self._machines(world)
        return world

    def _pages(self) -> tuple[PageAllocator, int]:
        machine = self.scenario.machine
        pages = PageAllocator(machine.memory_mib)
        other_pages = machine.base_used_mib * PAGES_PER_MIB
        if other_pages + pages.watermarks.high_pages >= pages.total_pages:
            rule = f"must leave more than {pages.watermarks.high_pages} pages of {machine.memory_mib} MiB free"
            raise ScenarioError(
                self.scenario.name,
                [Problem("machine.base_used_mib", str(machine.base_used_mib), rule)],
            )
        pages.take_base(other_pages)
        return pages, other_pages

    def _rcu(self, contexts: Sequence[CpuContext]) -> Rcu:
        kernel, tree = self.scenario.kernel, self.scenario.kernel.rcutree
        config = RcuConfig(
            cpus=len(contexts),
            hz=kernel.hz,
            preempt=kernel.preempt,
            blimit=tree.blimit,
            qhimark=tree.qhimark,
            qlowmark=tree.qlowmark,
            rcu_divisor=tree.rcu_divisor,
            rcu_resched_ns=tree.rcu_resched_ns,
            callbacks_per_step=self.scenario.reclaim.objects_per_step,
            jiffies_till_first_fqs=_chosen(tree.jiffies_till_first_fqs),
            jiffies_till_next_fqs=_chosen(tree.jiffies_till_next_fqs),
            rcu_fanout_leaf=tree.rcu_fanout_leaf,
            rcu_fanout=tree.rcu_fanout,
        )
        return Rcu.build(
            config,
            outbox=self.outbox,
            armed=self.armed,
            prices=self.platform.steps,
            probes=self.probes,
            cpus=contexts,
            parts=self.parts.rcu,
        )

    def _scheduler(self, contexts: Sequence[CpuContext], rcu: Rcu) -> Scheduler:
        kernel = self.scenario.kernel
        scheduler = Scheduler(
            engine=self.engine,
            jiffy_ns=jiffy_ns(kernel.hz),
            preempt=kernel.preempt,
            prices=CpuPrices(**self.platform.values["Cpu"]),
            cfs=CfsTunables.of(len(contexts)),
            outbox=self.outbox,
            armed=self.armed,
            rcu=rcu,
        )
        for context in contexts:
            self._cpu(scheduler, context, rcu)
        return scheduler

    def _cpu(self, scheduler: Scheduler, context: CpuContext, rcu: Rcu) -> None:
        number = context.cpu
        timers = TimerSoftirq(
            name=f"cpu{number}/timers",
            outbox=self.outbox,
            prices=step_prices(self.platform.steps, TimerSoftirq),
            cpu=number,
            at="expire",
            asleep=True,
        )
        softirqs: list[Machine] = [timers, rcu.cores[number]]
        ksoftirqd = Ksoftirqd(
            name=f"ksoftirqd/{number}",
            outbox=self.outbox,
            prices=step_prices(self.platform.steps, Ksoftirqd),
            cpu=number,
            asleep=True,
            preempt_off=True,
            softirqs=softirqs,
            rcu=rcu,
        )
        cpu = Cpu(
            self.ids.next(),
            f"cpu{number}",
            context=context,
            scheduler=scheduler,
            slowdown_permille=context.slowdown_permille,
            softirqs=softirqs,
            ksoftirqd=scheduler.add_thread(ksoftirqd, nice=0, consumer="softirq"),
        )
        scheduler.cpus.append(cpu)
        tick = Tick(
            self.ids.next(),
            f"cpu{number}/tick",
            cpu=cpu,
            machine=rcu.ticks[number],
            timers=timers,
            phase_ns=self._tick_phase_ns(number, scheduler.jiffy_ns),
        )
        scheduler.ticks.append(tick)

    def _tick_phase_ns(self, cpu: int, period_ns: int) -> int:
        """Return the phase of a CPU's tick: aligned, or spread over half a period (skew_tick=1)."""
        skew_ns = (
            period_ns // 2 * cpu // self.scenario.machine.cpus
            if self.scenario.kernel.skew_tick
            else 0
        )
        return skew_ns + self.choices.choose(TICK_JITTER_NS, f"cpu{cpu} tick jitter")

    def _kworkers(self, scheduler: Scheduler) -> list[Kworker]:
        prices = step_prices(self.platform.steps, Kworker)
        kworkers = []
        for number in range(self.scenario.machine.cpus):
            worker = Kworker(
                name=f"kworker/{number}", outbox=self.outbox, prices=prices, cpu=number, asleep=True
            )
            scheduler.add_thread(worker, nice=0, consumer="worker")
            kworkers.append(worker)
        return kworkers

    def _features(self) -> Features:
        reclaim = self.scenario.reclaim
        drain = reclaim.drain_jiffies
        return Features(
            drain_jiffies=self.scenario.kernel.hz // 50 if drain < 0 else drain,
            slots=reclaim.slots,
            block_entries=reclaim.block_entries,
            cached_pages=reclaim.cached_pages,
            objects_per_step=reclaim.objects_per_step,
        )

    def _machines(self, world: World) -> None:
        """Make the threads of kernel and workload, in the order of their names' introduction."""
        scheduler, rcu = world.scheduler, world.rcu
        scheduler.add_thread(rcu.gp, nice=0, consumer="gp_kthread", pinned=False)
        for cpu, tick in zip(scheduler.cpus, scheduler.ticks, strict=True):
            assert cpu.ksoftirqd is not None
            world.machines += [tick.machine, *cpu.softirqs, cpu.ksoftirqd.machine]
        world.machines += [rcu.gp, *world.kworkers]
        self._workload(world)
        self._readers(world)

    def _workload(self, world: World) -> None:
        table = self.scenario.workload
        if isinstance(table, RcuscaleTable):
            test = KfreeTest(_rcuscale_setting(table, self.scenario.machine.cpus), world.field)
            world.workload = test
            self._threads(world, test.build(), test.start_delays_ns(), table.nice, "producer")
        elif isinstance(table, BurstTable):
            burst = BurstWorkload(_burst_setting(table), world.field)
            world.workload = burst
            first = self.ids.last + 1
            self.ids.last += burst.setting.threads
            self._threads(
                world, burst.build(first), burst.start_delays_ns(), table.nice, "producer"
            )

    def _readers(self, world: World) -> None:
        table = self.scenario.readers
        if table is None:
            return
        setting = ReadersSetting(
            kinds=(
                ReaderKind("short", table.threads, table.section_us * US_NS, table.gap_us * US_NS),
                ReaderKind(
                    "long",
                    table.long_threads,
                    table.long_section_ms * MS_NS,
                    table.long_gap_ms * MS_NS,
                ),
            ),
            nice=table.nice,
            duration_ns=table.duration_ms * MS_NS,
        )
        readers = world.readers = ReadersWorkload(
            setting, world.field, lambda: world.outcome.running > 0
        )
        first = self.ids.last + 1
        self.ids.last += table.threads + table.long_threads
        self._threads(world, readers.build(first), readers.start_delays_ns(), table.nice, "reader")

    def _threads(
        self,
        world: World,
        machines: Sequence[Machine],
        delays_ns: Sequence[int],
        nice: int,
        consumer: str,
    ) -> None:
        for machine, delay_ns in zip(machines, delays_ns, strict=True):
            world.scheduler.add_thread(machine, nice=nice, consumer=consumer)
            alarm = Alarm(
                self.ids.next(), f"{machine.name}/start", machine=machine, scheduler=world.scheduler
            )
            world.alarms.append((alarm, delay_ns))
            world.machines.append(machine)


def _chosen(jiffies: int) -> int | None:
    return None if jiffies < 0 else jiffies


def _sizes_bytes(scenario: Scenario) -> tuple[int, ...]:
    """Return the sizes of all requests of a scenario's workload."""
    table = scenario.workload
    if isinstance(table, RcuscaleTable):
        return (table.kfree_mult * table.object_bytes,)
    if isinstance(table, BurstTable):
        return table.sizes_bytes
    return (1,)


def _rcuscale_setting(table: RcuscaleTable, cpus: int) -> RcuscaleSetting:
    return RcuscaleSetting(
        kfree_nthreads=threads_of(table, cpus),
        kfree_alloc_num=table.kfree_alloc_num,
        kfree_loops=loops_of(table),
        object_bytes=table.kfree_mult * table.object_bytes,
        footprint=table.footprint,
        objects_per_turn=table.objects_per_turn or min(table.kfree_alloc_num, MOST_PER_TURN),
        nice=table.nice,
        start_skew_us=table.start_skew_us,
    )


def _burst_setting(table: BurstTable) -> BurstSetting:
    return BurstSetting(
        threads=table.cpus,
        rate_per_second=table.rate_per_second,
        duration_ms=table.duration_ms,
        pause_ms=table.pause_ms,
        bursts=table.bursts,
        sizes_bytes=table.sizes_bytes,
        weights=table.weights,
        live_ms=table.live_ms,
        objects_per_turn=table.objects_per_turn,
        nice=table.nice,
    )
