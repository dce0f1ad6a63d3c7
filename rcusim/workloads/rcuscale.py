"""The kfree test of rcuscale (rcuperf up to 5.9), step by step.

Each thread is pinned and runs at nice 19: a number of loops, each of which allocates a number of objects
one by one, gives each to ``kfree_rcu()`` at once, and ends with one ``cond_resched()``. The last thread to
end reports the time since *its own* start, the grace periods between the last start and the last end, and
the memory footprint in one of the three definitions that existed. It does not wait for outstanding frees.

A turn of several objects is one step: first all allocations, then all queueing; with one object a turn it
is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import attrs

from rcusim._jit import IntArray, integers
from rcusim.engine.steps import Machine, Timer, state, step_prices, wiring
from rcusim.rcu import seq
from rcusim.units import US_NS
from rcusim.workloads.base import Field, Outcome, Patience


@attrs.frozen
class RcuscaleSetting:
    """Parameters of the test, named as the module's.

    Attributes
    ----------
    kfree_nthreads : int
        Threads; thread ``i`` runs on CPU ``i % cpus``.
    object_bytes : int
        ``sizeof(struct kfree_obj)`` times ``kfree_mult``.
    footprint : str
        ``posted_v3``, ``posted_v4`` or ``merged``.
    objects_per_turn : int
        Objects that a thread allocates and queues in one step.
    """

    kfree_nthreads: int
    kfree_alloc_num: int
    kfree_loops: int
    object_bytes: int
    footprint: str
    objects_per_turn: int
    nice: int
    start_skew_us: int


@attrs.frozen
class RcuscaleLine:
    """What the last thread prints."""

    total_ns: int
    loops: int
    batches: int
    footprint_mb: int


@attrs.define(eq=False)
class FootprintMeter:
    """Samples of available memory as one thread takes them, combined as a version of the test does.

    Attributes
    ----------
    begin_pages : int
        Available before: taken once for all threads, or by the thread at its loop 0 (``merged``).
    samples_pages : list of int
        Available at the quarters.
    """

    definition: str
    loops: int
    begin_pages: int
    samples_pages: list[int] = attrs.field(factory=list)

    def at_loop(self, loop: int, available_pages: int) -> None:
        """Take a sample if this loop is one at which the test does."""
        quarter = self.loops // 4
        if self.definition == "merged":
            if loop % max(1, quarter) == 0:
                if loop == 0:
                    self.begin_pages = available_pages
                self.samples_pages.append(available_pages)
        elif loop and loop in (self.loops // 4, self.loops // 2, 3 * self.loops // 4):
            self.samples_pages.append(available_pages)

    def footprint_mb(self) -> int:
        """Return the footprint in MiB, rounded down as the kernel's shift does; may be negative."""
        if not self.samples_pages:
            return 0
        if self.definition == "posted_v4":
            during = sum(self.samples_pages) // len(self.samples_pages)
        else:
            during = self.samples_pages[0]
            for sample in self.samples_pages[1:]:
                during = (during + sample) // 2
        return (self.begin_pages - during) >> 8


@state
class KfreeScaleThread(Machine):
    """``kfree_scale_thread``.

    ::

        start -> turn ... turn -> end
                  |  ^
                  v  |      (no page: sleep a jiffy)
                 retry
    """

    STEPS: ClassVar[tuple[str, ...]] = ("start", "turn", "retry", "end")

    test: KfreeTest = wiring()
    buffer: IntArray = wiring()
    meter: FootprintMeter = wiring()
    patience: Patience = wiring()
    timer: Timer = wiring(init=False)
    started_ns: int = 0
    loop: int = 0
    done_in_loop: int = 0
    sampled: bool = False

    def start(self) -> None:
        """Read the clock; the last thread to start notes the grace-period number."""
        self.started_ns = self.test.thread_started()
        self.at = "turn"

    def turn(self) -> int:
        """Allocate and queue the next objects."""
        test, field, setting = self.test, self.test.field, self.test.setting
        if not self.sampled:
            self.sampled = True
            self.meter.at_loop(self.loop, field.pages.available_pages())
        n = min(setting.objects_per_turn, setting.kfree_alloc_num - self.done_in_loop)
        got, price_ns = field.allocate(self, test.cache, n, self.buffer, 0)
        if got:
            self.patience.succeeded()
            price_ns += field.queue(self, test.cache, self.buffer, 0, got)
            self.done_in_loop += got
        self.resched = False
        self.might_sleep = True
        if got < n:
            self.at = "retry"
            self.timer.arm(self.cpu, 1)
            self.sleep()
        elif self.done_in_loop == setting.kfree_alloc_num:
            self.resched = True
            self.done_in_loop = 0
            self.sampled = False
            self.loop += 1
            if self.loop == setting.kfree_loops:
                self.at = "end"
        return price_ns

    def retry(self) -> None:
        """Look whether it makes sense to go on asking for memory."""
        self.at = "turn"
        if self.patience.exhausted():
            self.test.thread_failed(self)
            self.sleep()

    def end(self) -> None:
        """Count the end; the last thread makes the report."""
        self.resched = True
        self.might_sleep = False
        self.test.thread_ended(self)
        self.sleep()


@attrs.define(eq=False)
class KfreeTest:
    """The test: its threads and what they count together."""

    setting: RcuscaleSetting
    field: Field
    outcome: Outcome = attrs.field(factory=Outcome)
    line: RcuscaleLine | None = None
    cache: int = 0
    threads: list[KfreeScaleThread] = attrs.field(factory=list)
    _started: int = 0
    _ended: int = 0
    _begin_seq: int = 0

    def build(self) -> Sequence[Machine]:
        """Return the threads, asleep; :meth:`start_delays_ns` says when each is to be woken."""
        field, setting = self.field, self.setting
        self.cache = field.allocator.cache_of(setting.object_bytes)
        begin_pages = field.pages.available_pages()
        for index in range(setting.kfree_nthreads):
            thread = KfreeScaleThread(
                name=f"kfree_scale_thread/{index}",
                outbox=field.outbox,
                prices=step_prices(field.step_prices, KfreeScaleThread),
                cpu=index % field.cpus,
                at="start",
                asleep=True,
                test=self,
                buffer=integers(setting.objects_per_turn),
                meter=FootprintMeter(setting.footprint, setting.kfree_loops, begin_pages),
                patience=Patience(field.pages, field.now_ns),
            )
            thread.timer = Timer(name=f"{thread.name}/timer", armed=field.armed, fire=thread.wake)
            self.threads.append(thread)
        self.outcome.running = len(self.threads)
        return self.threads

    def start_delays_ns(self) -> list[int]:
        """Return when each thread first runs: drawn from the seed, 0 .. start_skew_us."""
        skew_ns = self.setting.start_skew_us * US_NS
        return [
            self.field.choices.choose(skew_ns + 1, f"{thread.name} start")
            for thread in self.threads
        ]

    def objects(self) -> int:
        """Return how many objects the test handles in all."""
        setting = self.setting
        return setting.kfree_nthreads * setting.kfree_loops * setting.kfree_alloc_num

    def may_go_on(self) -> bool:
        """Return whether a thread runs or waits for a time that will come."""
        return any(not thread.asleep or thread.timer.pending for thread in self.threads)

    def live_objects(self) -> int:
        """Return 0: every object is queued in the step that allocates it."""
        return 0

    def thread_started(self) -> int:
        """Count a start; return the time."""
        now_ns = self.field.now_ns()
        self.outcome.started(now_ns)
        self._started += 1
        if self._started == len(self.threads):
            self._begin_seq = self.field.rcu.gp_seq
        return now_ns

    def thread_ended(self, thread: KfreeScaleThread) -> None:
        """Count an end; the last one makes the line."""
        now_ns = self.field.now_ns()
        self.outcome.ended()
        self._ended += 1
        if self._ended == len(self.threads):
            self.line = RcuscaleLine(
                total_ns=now_ns - thread.started_ns,
                loops=self.setting.kfree_loops,
                batches=seq.diff(self.field.rcu.gp_seq, self._begin_seq),
                footprint_mb=thread.meter.footprint_mb(),
            )

    def thread_failed(self, thread: KfreeScaleThread) -> None:
        """Count a thread that ended with -ENOMEM and never counts as ended."""
        self.outcome.failed.append(thread.name)
        self.outcome.ended()
