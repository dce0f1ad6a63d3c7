"""``rcu_state`` and ``rcu_data``: what all CPUs share, and what each CPU knows (6.18).

Three copies of ``gp_seq`` disagree on purpose: `RcuState` leads at the start of a grace period, its
nodes follow; nodes lead at the end, `RcuState` follows; each CPU learns of both only when its RCU
core *notices*. Noticing (:meth:`RcuData.note_gp_changes`), recording (:meth:`RcuData.record_qs`)
and reporting (``RcuCore.report``) a quiescent state are three steps; between them anything may run.

Leaves out expedited and polled grace periods, ``gpwrap`` (a CPU that lags by a quarter of the
counter), offloaded callbacks, stall warnings, and the trylocks that make a contended notice or
forced scan wait for the next tick. A walk that requests a grace period is one step, from leaf to
root, and notes the lock of its first node only.
"""

from __future__ import annotations

from rcusim.engine.steps import Machine, state, wiring
from rcusim.errors import PropertyViolation
from rcusim.machine.context import CpuContext
from rcusim.probes import Probes
from rcusim.rcu import seq
from rcusim.rcu.config import MAX_BLIMIT, RcuConfig
from rcusim.rcu.segcblist import Segcblist
from rcusim.rcu.tree import RcuNode

INIT = 1
FQS = 2
"""``RCU_GP_FLAG_INIT`` and ``RCU_GP_FLAG_FQS``: a grace period, a scan is wanted."""


@state
class RcuState:
    """``rcu_state``.

    Attributes
    ----------
    nodes, leaves : tuple of RcuNode
        The tree, breadth first, and its last level.
    data : tuple of RcuData
        By CPU.
    kthread : Machine
        The grace-period kthread.
    gp_seq : int
        The official number: first to change at the start of a grace period, last at its end.
    gp_flags : int
        What the kthread is asked for: INIT, FQS.
    n_force_qs : int
        Scans so far.
    cbovld, cbovldnext : bool
        Whether some CPU had too many callbacks at the last scan, and as far as this one has come.
    """

    config: RcuConfig = wiring()
    probes: Probes = wiring()
    nodes: tuple[RcuNode, ...] = wiring()
    leaves: tuple[RcuNode, ...] = wiring()
    data: tuple[RcuData, ...] = wiring(init=False)
    kthread: Machine = wiring(init=False)
    gp_seq: int = seq.INITIAL
    gp_flags: int = 0
    n_force_qs: int = 0
    cbovld: bool = False
    cbovldnext: bool = False

    @property
    def root(self) -> RcuNode:
        """The root of the tree; the only leaf of a small one."""
        return self.nodes[0]

    @property
    def gp_in_progress(self) -> bool:
        """Whether a grace period has officially begun and not ended."""
        return seq.running(self.gp_seq)

    @property
    def completed(self) -> int:
        """Grace periods that have ended since boot."""
        return ((self.gp_seq - seq.INITIAL) & seq.MASK) >> seq.STATE_BITS

    def snapshot(self) -> int:
        """Return the number that proves a full grace period from now; starts nothing."""
        return seq.snap(self.gp_seq)

    def wake_kthread(self) -> None:
        """Wake the kthread if there is something to do (``rcu_gp_kthread_wake``)."""
        if self.gp_flags:
            self.kthread.wake()

    def start_this_gp(self, begin: RcuNode, data: RcuData, wanted: int) -> bool:
        """Record that grace period `wanted` is needed (``rcu_start_this_gp``).

        Walks from `begin` to the root and stops where somebody has asked already, or where a grace
        period is in progress, whose cleanup will find the mark.

        Returns
        -------
        bool
            Whether the kthread must be woken, after the lock of `begin` is dropped.
        """
        node = begin
        while True:
            running = seq.running(node.gp_seq)
            if (
                seq.ge(node.gp_seq_needed, wanted)
                or seq.started(node.gp_seq, wanted)
                or (node is not begin and running)
            ):
                break
            node.gp_seq_needed = wanted
            if running:
                break
            if node.parent is None:
                if self.gp_in_progress:
                    break
                self.gp_flags |= INIT
                return True
            node = node.parent
        if seq.lt(wanted, node.gp_seq_needed):  # spares later requesters the walk
            begin.gp_seq_needed = data.gp_seq_needed = node.gp_seq_needed
        return False

    def force_quiescent_state(self) -> None:
        """Ask for a scan now, if a grace period is in progress (``rcu_force_quiescent_state``)."""
        if self.gp_in_progress and not self.gp_flags & FQS:
            self.gp_flags |= FQS
            self.wake_kthread()


@state
class RcuData:
    """``rcu_data``: RCU's view of one CPU.

    Attributes
    ----------
    leaf : RcuNode
        ``mynode``.
    grpmask : int
        The CPU's bit in its leaf.
    gp_seq, gp_seq_needed : int
        The last number noticed; the furthest grace period known to be needed.
    cpu_no_qs : bool
        No quiescent state since the grace period was noticed (``cpu_no_qs.b.norm``).
    core_needs_qs : bool
        The grace period waits for this CPU.
    blimit, qlen_last_fqs_check, n_force_qs_snap : int
        Batch limit; length of the list and number of scans when overload was last looked at.
    watching : int
        Counter of extended quiescent states, odd while RCU watches this CPU.
    irq_nesting : int
        Interrupts on top of idle: 0, 1 for the first, 2 more for each further.
    watching_snap : int
        `watching` at the first scan of the grace period.
    rcu_urgent_qs, rcu_need_heavy_qs : bool
        Help is wanted from tick, context switch and ``cond_resched()``; a momentary idle too.
    resched_age : int
        Age of the grace period at the last request to reschedule, see ``GpKthread.age``.
    """

    cpu: int = wiring()
    rcu: RcuState = wiring()
    leaf: RcuNode = wiring()
    grpmask: int = wiring()
    context: CpuContext = wiring()
    cblist: Segcblist = wiring()
    blimit: int
    gp_seq: int = seq.INITIAL
    gp_seq_needed: int = seq.INITIAL
    cpu_no_qs: bool = True
    core_needs_qs: bool = False
    qlen_last_fqs_check: int = 0
    n_force_qs_snap: int = 0
    watching: int = 1
    irq_nesting: int = 0
    watching_snap: int = 0
    rcu_urgent_qs: bool = False
    rcu_need_heavy_qs: bool = False
    resched_age: int = 0

    # -- grace periods and callbacks: the caller holds the lock of `node` ----------------------

    def accelerate(self, node: RcuNode) -> bool:
        """Give newcomers a number and ask for that grace period (``rcu_accelerate_cbs``).

        Returns
        -------
        bool
            Whether the kthread must be woken.
        """
        if not self.cblist.pending:
            return False
        wanted = self.rcu.snapshot()  # of the official copy: right in both windows of disagreement
        return self.cblist.accelerate(wanted) and self.rcu.start_this_gp(node, self, wanted)

    def advance(self, node: RcuNode) -> bool:
        """Take what is over as DONE, then accelerate (``rcu_advance_cbs``); return as that does."""
        if not self.cblist.pending:
            return False
        self.cblist.advance(node.gp_seq)
        return self.accelerate(node)

    def note_gp_changes(self) -> bool:
        """Notice the end and the start of grace periods (``__note_gp_changes``).

        Only from now on do quiescent states of this CPU count for the grace period of its leaf.

        Returns
        -------
        bool
            Whether the kthread must be woken.
        """
        leaf = self.leaf
        if self.gp_seq == leaf.gp_seq:
            return False
        if seq.lt(leaf.gp_seq, self.gp_seq):
            what = f"cpu{self.cpu} is ahead of its leaf"
            raise PropertyViolation("invariant I8", -1, what)
        needed = bool(leaf.qsmask & self.grpmask)
        if seq.completed_gp(self.gp_seq, leaf.gp_seq):
            wake = self.advance(leaf)
            self.core_needs_qs = False
        else:
            wake = self.accelerate(leaf)
            self.core_needs_qs = self.core_needs_qs and needed
        if seq.new_gp(self.gp_seq, leaf.gp_seq):
            self.cpu_no_qs = needed
            self.core_needs_qs = needed
        self.gp_seq = leaf.gp_seq
        if seq.lt(self.gp_seq_needed, leaf.gp_seq_needed):
            self.gp_seq_needed = leaf.gp_seq_needed
        return wake

    def accelerate_unlocked(self) -> bool:
        """Accelerate; take the lock only for a number not yet asked for.

        As ``rcu_accelerate_cbs_unlocked``.

        Returns
        -------
        bool
            Whether the lock of the leaf was taken.
        """
        wanted = self.rcu.snapshot()
        if seq.ge(self.gp_seq_needed, wanted):
            self.cblist.accelerate(wanted)
            return False
        if self.accelerate(self.leaf):
            self.rcu.wake_kthread()
        return True

    # -- quiescent states ----------------------------------------------------------------------

    def record_qs(self) -> None:
        """Remember that no reader of this CPU is older than now (``rcu_qs``)."""
        self.cpu_no_qs = False

    def momentary_eqs(self) -> None:
        """Look idle for no time at all (``rcu_momentary_eqs``): the next scan will see it."""
        self.rcu_need_heavy_qs = False
        self.watching += 2

    def help_urgent_qs(self) -> bool:
        """Answer an urgent request, heavily if that is wanted; return whether there was one."""
        if not self.rcu_urgent_qs:
            return False
        self.rcu_urgent_qs = False
        if self.rcu_need_heavy_qs:
            self.momentary_eqs()
        return True

    def disable_urgency(self) -> None:
        """Withdraw requests for help (``rcu_disable_urgency_upon_qs``)."""
        self.rcu_urgent_qs = False
        self.rcu_need_heavy_qs = False

    # -- overload ------------------------------------------------------------------------------

    def check_cb_ovld(self) -> None:
        """Set or clear this CPU's overload bit (``check_cb_ovld``)."""
        if self.cblist.n_cbs >= self.rcu.config.qovld:
            self.leaf.cbovldmask |= self.grpmask
        else:
            self.leaf.cbovldmask &= ~self.grpmask

    def handle_overload(self, *, first: bool) -> None:
        """Hurry a grace period along when callbacks pile up (``call_rcu``, the tail).

        Parameters
        ----------
        first : bool
            Whether the newest callback is the first one that waits for a grace period.
        """
        rcu, callbacks = self.rcu, self.cblist.n_cbs
        if callbacks <= self.qlen_last_fqs_check + rcu.config.qhimark:
            return
        if self.note_gp_changes():
            rcu.wake_kthread()
        if not rcu.gp_in_progress:
            self.accelerate_unlocked()
            return
        self.blimit = MAX_BLIMIT
        if rcu.n_force_qs == self.n_force_qs_snap and not first:
            rcu.force_quiescent_state()
        self.n_force_qs_snap = rcu.n_force_qs
        self.qlen_last_fqs_check = callbacks

    def reinstate_limits(self) -> None:
        """Lower the batch limit and the mark of overload after a batch (``rcu_do_batch``)."""
        config, callbacks = self.rcu.config, self.cblist.n_cbs
        if self.blimit >= MAX_BLIMIT and callbacks <= config.qlowmark:
            self.blimit = config.blimit
        if not callbacks and self.qlen_last_fqs_check:
            self.qlen_last_fqs_check = 0
            self.n_force_qs_snap = self.rcu.n_force_qs
        elif callbacks < self.qlen_last_fqs_check - config.qhimark:
            self.qlen_last_fqs_check = callbacks
