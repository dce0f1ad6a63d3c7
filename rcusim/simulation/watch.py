"""What looks at a world after every step: the recorder, the oracles, and the watch for hangs."""

from __future__ import annotations

import attrs

from rcusim.abc import Allocator
from rcusim.engine.clock import Actor
from rcusim.engine.steps import Machine
from rcusim.errors import Hang, LimitReached, PropertyViolation
from rcusim.formats.slabinfo import Slabs
from rcusim.oracles.conservation import Conservation
from rcusim.oracles.interval import IntervalLaw
from rcusim.oracles.ledger import Ledger
from rcusim.reclaim.books import Part
from rcusim.results.series import SeriesBuilder
from rcusim.results.slabinfo import SlabinfoBuilder
from rcusim.simulation.world import World
from rcusim.units import MS_NS, PAGE_SIZE_BYTES, S_NS

STALL_NS = 60 * S_NS
"""With objects queued, nobody reading, and neither a free nor a grace period for so long, the world hangs."""


@attrs.define(eq=False)
class Watch:
    """Observes every step of a world."""

    world: World
    series: SeriesBuilder
    ledger: Ledger
    interval: IntervalLaw
    conservation: Conservation
    slabinfo: SlabinfoBuilder | None
    workload_marked: int = 0
    gp_began_ns: int = 0
    gp_ns_max: int = 0
    gp_ns_sum: int = 0
    oldest_ns_sum: int = 0
    oldest_samples: int = 0

    @classmethod
    def attach(cls, world: World, series: SeriesBuilder) -> Watch:
        """Return a watch that listens to everything in `world`."""
        now_ns = world.now_ns
        ledger = Ledger(now_ns, world.allocator.address_bound)
        ledger.attach(world.probes)
        interval = IntervalLaw(now_ns, lambda: world.pool.stamp)
        interval.attach(world.probes)
        workload = world.workload
        conservation = Conservation(
            now_ns=now_ns,
            allocator=world.allocator,
            pages=world.pages,
            generation=world.generation,
            books=world.books,
            ledger=ledger,
            other_pages=world.other_pages,
            live_objects=workload.live_objects if workload is not None else lambda: 0,
            cached_pages=world.scenario.machine.cpus * world.scenario.reclaim.cached_pages,
        )
        watch = cls(
            world, series, ledger, interval, conservation, slabinfo_builder(world.allocator)
        )
        world.scheduler.stepped = watch.stepped
        world.engine.advancing = watch.advancing
        world.probes.gp_started.subscribe(watch.gp_started)
        world.probes.gp_ended.subscribe(watch.gp_ended)
        world.probes.block_missed.subscribe(
            lambda _cpu, objects: series.emergency(now_ns(), objects)
        )
        series.observe(0, world.pages.given_pages * PAGE_SIZE_BYTES, watch.parts_bytes)
        return watch

    def advancing(self, at_ns: int) -> None:
        """Record the world as it is before time goes on."""
        self.series.hold(at_ns, self.parts_bytes)
        if self.slabinfo is not None:
            self.slabinfo.hold(at_ns)

    def stepped(self, machine: Machine) -> None:
        """Check and record the instant after a step; end the run when everything is drained."""
        del machine
        world = self.world
        self.conservation.check()
        self.series.observe(
            world.engine.now_ns, world.pages.given_pages * PAGE_SIZE_BYTES, self.parts_bytes
        )
        if world.outcome.running == 0:
            self._ended()
        elif not self.workload_marked and world.outcome.first_start_ns >= 0:
            self.workload_marked = 1
            self.series.mark_start(world.engine.now_ns)

    def gp_started(self, gp_seq: int) -> None:
        """Note when a grace period begins."""
        del gp_seq
        self.gp_began_ns = self.world.engine.now_ns

    def gp_ended(self, gp_seq: int) -> None:
        """Note how long a grace period took, and how old the oldest object that waits is."""
        del gp_seq
        now_ns = self.world.engine.now_ns
        born_ns = self.world.pool.born_ns
        oldest_ns = min(
            (
                born_ns[chain.chunks[0]]
                for _, chain in self.world.generation.chains()
                if chain.chunks
            ),
            default=None,
        )
        if oldest_ns is not None:
            self.oldest_samples += 1
            self.oldest_ns_sum += now_ns - oldest_ns
        length_ns = now_ns - self.gp_began_ns
        self.gp_ns_max = max(self.gp_ns_max, length_ns)
        self.gp_ns_sum += length_ns
        self.series.grace_period(now_ns)

    def parts_bytes(self) -> tuple[int, ...]:
        """Return the footprint by part, each from its own account.

        Raises
        ------
        PropertyViolation
            When the parts are not the whole.
        """
        world = self.world
        held = world.books.size_bytes
        slab_bytes = world.allocator.pages() * PAGE_SIZE_BYTES
        parts = (
            held[Part.LIVE],
            held[Part.COLLECTING_LIST],
            held[Part.COLLECTING_BLOCKS],
            held[Part.WAITING_GP],
            held[Part.WAITING_WORKER],
            slab_bytes - world.allocator.handed_out_bytes(),
            world.generation.block_pages() * PAGE_SIZE_BYTES,
            world.other_pages * PAGE_SIZE_BYTES,
        )
        total_bytes = world.pages.given_pages * PAGE_SIZE_BYTES
        if sum(parts) != total_bytes or min(parts) < 0:
            self.conservation.recount()  # knows more about what is wrong
            what = f"the parts {parts} are {sum(parts)} bytes, the page allocator has given out {total_bytes}"
            raise PropertyViolation("conservation of bytes", world.engine.now_ns, what)
        return parts

    def _ended(self) -> None:
        world = self.world
        if self.workload_marked < 2:
            self.workload_marked = 2
            self.series.mark_end(world.engine.now_ns)
        if world.workload_over() and world.books.total_objects == 0:
            world.engine.finish()


def slabinfo_builder(allocator: Allocator) -> SlabinfoBuilder | None:
    """Return what records ``/proc/slabinfo``; None for an allocator that does not tell."""
    if not isinstance(allocator, Slabs):
        return None
    # the kernel lists the newest cache first
    numbers = range(len(allocator.cache_names))[::-1]
    return SlabinfoBuilder(lambda: [allocator.slabinfo_row(number) for number in numbers])


@attrs.define(eq=False)
class StallWatch(Actor):
    """Looks every so often whether what is owed still makes progress."""

    world: World = attrs.field(kw_only=True)
    interval: IntervalLaw = attrs.field(kw_only=True)
    _seen: tuple[int, ...] = ()

    def fire(self) -> Machine | None:
        """Look, and come again."""
        world = self.world
        books = world.books
        progress = (world.rcu.completed, books.allocated, books.queued, books.freed)
        owed = books.queued > books.freed or world.workload_waits_for_nothing()
        if progress == self._seen and owed and not self.interval.open:
            words = f"{books.queued - books.freed} objects are queued, {world.outcome.running} threads have not ended"
            raise Hang(
                f"the world hangs: {words}, and nothing moved for {STALL_NS // S_NS} s: {describe(world)}"
            )
        self._seen = progress
        drain_ns = world.drain_jiffies() * world.scheduler.jiffy_ns
        world.engine.schedule(self, world.engine.now_ns + STALL_NS + 2 * drain_ns)
        return None


@attrs.define(eq=False)
class LimitWatch(Actor):
    """Ends a run at its limit of virtual time."""

    world: World = attrs.field(kw_only=True)

    def fire(self) -> Machine | None:
        """Give up."""
        limit_ms = self.world.engine.now_ns // MS_NS
        raise LimitReached(f"the limit of {limit_ms} ms of virtual time (run.limit_ms) is reached")


def describe(world: World) -> str:
    """Return who waits for what."""
    waiting = list(world.rcu.describe())
    waiting += [
        f"{machine.name} {'asleep' if machine.asleep else 'awake'} at {machine.at or 'its coroutine'}"
        for machine in world.machines
        if machine.name in world.scheduler.threads and not machine.asleep
    ]
    return "; ".join(waiting)
