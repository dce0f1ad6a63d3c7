"""The RCU core of a CPU: the handler of ``RCU_SOFTIRQ`` (``rcu_core``, ``rcu_do_batch``, 6.18).

A pass of the handler is several steps: one for each lock-protected block, and at least one for a
batch; a step that would find nothing to do is passed over.

Leaves out ``rcuc`` kthreads, offloading, deferred quiescent states of preempted readers, and the
check for a grace period that was requested and never started.
"""

from __future__ import annotations

from typing import ClassVar

import attrs

from rcusim.abc import Callbacks
from rcusim.engine.steps import Level, state, wiring
from rcusim.errors import InternalError
from rcusim.rcu.config import TIME_CHECK_CALLBACKS, TIME_LIMIT_CALLBACKS
from rcusim.rcu.reporter import Reporter
from rcusim.rcu.state import RcuData


@state
class RcuCore(Reporter):
    """The softirq handler. It is at `notice` between passes, asleep unless raised.

    ::

        notice -> report (-> report_up, each node) -> accelerate -> invoke (each piece) -> notice

    Raising the softirq is :meth:`wake`. During a pass it asks for another one: at the end of the
    pass the core then goes to sleep and wakes at once, and so appears in the outbox again.

    Attributes
    ----------
    raised : bool
        The softirq is pending.
    batch, batch_next : list of Callbacks, int
        The entries being invoked, and how many of them are done with.
    batch_callbacks : int
        Callbacks of the batch that are not invoked yet.
    batch_limit : int
        ``bl``: how many callbacks may be invoked on a busy CPU; 0 between batches.
    batch_count : int
        Callbacks invoked so far.
    batch_budget_ns, batch_spent_ns : int
        Limit in time, 0 for none; and the price of the batch so far.
    """

    STEPS: ClassVar[tuple[str, ...]] = ("notice", "report", "report_up", "accelerate", "invoke")
    level: ClassVar[Level] = Level.SOFTIRQ

    data: RcuData = wiring()
    at: str = "notice"
    asleep: bool = True
    raised: bool = False
    batch: list[Callbacks] = attrs.field(factory=list)
    batch_next: int = 0
    batch_callbacks: int = 0
    batch_limit: int = 0
    batch_count: int = 0
    batch_budget_ns: int = 0
    batch_spent_ns: int = 0

    def wake(self) -> None:
        """Raise the softirq (``invoke_rcu_core``)."""
        self.raised = True
        super().wake()

    def step(self) -> int:
        """Take the next step that has something to do; return its price in ns."""
        if self.at == "notice":
            self.raised = False
            self.at = self.next_due("") or "notice"
        return super().step()

    # -- order of rcu_core() -------------------------------------------------------------------

    def next_due(self, behind: str) -> str:
        """Return the first step behind `behind` that has something to do, or an empty string."""
        data, rank = self.data, ("", "notice", "report", "accelerate", "invoke").index(behind)
        if rank < 1 and data.gp_seq != data.leaf.gp_seq:
            return "notice"
        if rank < 2 and data.core_needs_qs and not data.cpu_no_qs:
            return "report"
        if rank < 3 and data.cblist.unassigned and not self.rcu.gp_in_progress:
            return "accelerate"
        if rank < 4 and data.cblist.ready:
            return "invoke"
        return ""

    def go_on(self, behind: str) -> None:
        """Go on with what is due behind a step, or end the pass."""
        self.at = self.next_due(behind)
        if self.at:
            return
        self.at = "notice"
        self.sleep()
        if self.raised:
            self.wake()

    # -- quiescent states ----------------------------------------------------------------------

    def notice(self) -> None:
        """Notice that grace periods have ended or begun (``note_gp_changes``)."""
        self.lock(self.data.leaf)
        if self.data.note_gp_changes():
            self.rcu.wake_kthread()
        self.go_on("notice")

    def report(self) -> None:
        """Report the recorded quiescent state at the leaf (``rcu_report_qs_rdp``)."""
        data, leaf = self.data, self.data.leaf
        self.lock(leaf)
        if data.cpu_no_qs or data.gp_seq != leaf.gp_seq:
            data.cpu_no_qs = True  # it belongs to a grace period that is over
            self.reported()
            return
        data.core_needs_qs = False
        if not leaf.qsmask & data.grpmask:
            self.reported()
            return
        # the grace period cannot end before the report: what is queued may use the next one
        wake = data.accelerate(leaf)
        data.disable_urgency()
        self.clear_bits(leaf, data.grpmask, leaf.gp_seq)
        if wake:
            self.rcu.wake_kthread()

    def reported(self) -> None:
        """Go on behind the report."""
        self.go_on("report")

    def accelerate(self) -> None:
        """Ask for a grace period for new callbacks when none is in progress."""
        if self.data.accelerate_unlocked():
            self.lock(self.data.leaf)
        self.go_on("accelerate")

    # -- callbacks (rcu_do_batch) --------------------------------------------------------------

    def invoke(self) -> int:
        """Invoke a piece of the batch; return what the callbacks cost, in ns."""
        if not self.batch_limit:
            self.begin_batch()
        self.batch_spent_ns += self.prices["invoke"][0]
        before_ns = self.batch_spent_ns
        room = self.rcu.config.callbacks_per_step
        over = False
        while room > 0 and not over:
            room -= self.invoke_run(room)
            over = self.batch_over()
        price_ns = self.batch_spent_ns - before_ns
        if over:
            self.end_batch()
            self.go_on("invoke")
        return price_ns

    def begin_batch(self) -> None:
        """Detach what is DONE, and set the limits."""
        config, context = self.rcu.config, self.data.context
        self.batch, self.batch_callbacks = self.data.cblist.extract_done()
        self.batch_limit = max(self.data.blimit, self.batch_callbacks >> config.rcu_divisor)
        if self.batch_limit > TIME_LIMIT_CALLBACKS:
            self.batch_budget_ns = max(1, config.rcu_resched_ns * 1000 // context.slowdown_permille)

    def invoke_run(self, room: int) -> int:
        """Invoke up to `room` callbacks of the next run; return how many."""
        entry = self.batch[self.batch_next]
        callbacks = entry.count  # the callback may queue the entry again
        limit = min(room, callbacks)
        if self.busy():
            limit = min(limit, max(1, self.batch_limit - self.batch_count))
        budget_ns = 0
        if self.batch_budget_ns:
            # the entry counts from 0: bring it into step with the batch first
            unaligned = self.batch_count % TIME_CHECK_CALLBACKS
            if unaligned:
                limit = min(limit, TIME_CHECK_CALLBACKS - unaligned)
            else:
                budget_ns = max(1, self.batch_budget_ns - self.batch_spent_ns)
        invoked, price_ns = entry.invoke(self.cpu, limit, budget_ns)
        if not 1 <= invoked <= limit:
            raise InternalError(f"{invoked} callbacks invoked of {limit}")
        if entry.held:
            self.held.extend(entry.held)
            entry.held.clear()
        self.batch_count += invoked
        self.batch_callbacks -= invoked
        self.batch_spent_ns += price_ns
        if invoked == callbacks:
            self.batch_next += 1
        return invoked

    def busy(self) -> bool:
        """Return whether the CPU has something else to do than callbacks."""
        context = self.data.context
        return context.need_resched or not context.idle

    def batch_over(self) -> bool:
        """Return whether the batch must end here."""
        if self.batch_next == len(self.batch):
            return True
        if self.batch_count >= self.batch_limit and self.busy():
            return True
        return (
            0 < self.batch_budget_ns <= self.batch_spent_ns
            and self.batch_count % TIME_CHECK_CALLBACKS == 0
        )

    def end_batch(self) -> None:
        """Put the rest back, count, and raise the softirq again if callbacks are left."""
        data, cblist = self.data, self.data.cblist
        cblist.insert_done(self.batch[self.batch_next :], self.batch_callbacks)
        cblist.add_len(-self.batch_count)
        cblist.check()
        data.reinstate_limits()
        self.batch = []
        self.batch_next = self.batch_callbacks = self.batch_limit = self.batch_count = 0
        self.batch_budget_ns = self.batch_spent_ns = 0
        if cblist.ready:
            self.raised = True
