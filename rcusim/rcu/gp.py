"""The grace-period kthread (``rcu_gp_kthread``, kernel/rcu/tree.c, 6.18).

Starts, drives and ends every normal grace period. Leaves out the pass over leaves that takes in CPU
hotplug (all CPUs stay online, so that it has nothing to do), waiters of ``synchronize_rcu()``,
polled grace periods, boosting, wake-ups of offload kthreads, and the ``irq_work`` probe of a stall.
"""

from __future__ import annotations

from typing import ClassVar

from rcusim.engine.steps import Level, Timer, state, wiring
from rcusim.errors import PropertyViolation
from rcusim.rcu import seq
from rcusim.rcu.reporter import Reporter
from rcusim.rcu.state import FQS, INIT, RcuData
from rcusim.rcu.tree import RcuNode


@state
class GpKthread(Reporter):
    """The kthread: asleep at `wait_request` and at `wait_fqs`.

    ::

        wait_request -> start -> init_node (each) -> wait_fqs -> cleanup (each) -> end -+
             ^                                       |     ^                            |
             |                                       v     |                            |
             |         fqs_leaf (each, with report_up) -> clear_fqs                     |
             +--------------------------------------------------------------------------+

    Attributes
    ----------
    node, leaf : int
        The next node of a pass over all nodes, the next leaf of a scan.
    first_fqs : bool
        No scan of this grace period has ended yet: take snapshots.
    fqs_due : bool
        The delay before the next scan is over.
    hurry : bool
        Overload: scan without any delay.
    need_gp : bool
        Cleanup has found a request for a further grace period.
    age : int
        How many times ``jiffies_to_sched_qs`` the grace period is old.
    """

    STEPS: ClassVar[tuple[str, ...]] = (
        "wait_request",
        "start",
        "init_node",
        "wait_fqs",
        "fqs_leaf",
        "report_up",
        "clear_fqs",
        "cleanup",
        "end",
    )
    level: ClassVar[Level] = Level.TASK

    armed: list[Timer] = wiring()
    fqs_timer: Timer = wiring(init=False)
    age_timer: Timer = wiring(init=False)
    at: str = "wait_request"
    asleep: bool = True
    node: int = 0
    leaf: int = 0
    first_fqs: bool = True
    fqs_due: bool = False
    hurry: bool = False
    need_gp: bool = False
    age: int = 0

    def __attrs_post_init__(self) -> None:
        self.fqs_timer = Timer(name="gp/fqs", armed=self.armed, fire=self.fqs_timeout)
        self.age_timer = Timer(name="gp/age", armed=self.armed, fire=self.grow_old)

    # -- timers --------------------------------------------------------------------------------

    def fqs_timeout(self) -> None:
        """Note that the delay before a scan is over."""
        self.fqs_due = True
        self.wake()

    def grow_old(self) -> None:
        """Note that the grace period is older by ``jiffies_to_sched_qs``."""
        self.age += 1
        self.age_timer.arm(self.cpu, self.rcu.config.sched_qs_jiffies)

    # -- start (rcu_gp_init) -------------------------------------------------------------------

    def wait_request(self) -> None:
        """Sleep until a grace period is wanted."""
        if not self.rcu.gp_flags & INIT:
            self.sleep()
            return
        self.at = "start"

    def start(self) -> None:
        """Begin a grace period officially: from now on requests need the next one."""
        rcu = self.rcu
        self.lock(rcu.root)
        if not rcu.gp_flags:  # spurious
            self.at = "wait_request"
            return
        rcu.gp_flags = 0
        if rcu.gp_in_progress:
            raise PropertyViolation("invariant I8", -1, "a grace period starts in another one")
        rcu.gp_seq = seq.start(rcu.gp_seq)
        if rcu.probes.gp_started:
            rcu.probes.gp_started(rcu.gp_seq)
        self.age = 0
        self.age_timer.arm(self.cpu, rcu.config.sched_qs_jiffies)
        self.at = "init_node"

    def init_node(self) -> None:
        """Let one node wait for all below it; its CPUs may notice the grace period from now on."""
        node = self.rcu.nodes[self.node]
        self.lock(node)
        self.check_reported(node)
        node.qsmask = node.qsmaskinit
        node.gp_seq = self.rcu.gp_seq
        self.note_own(node)
        if not self.next_node():
            self.first_fqs = True
            self.hurry = self.rcu.cbovld
            self.await_fqs(self.rcu.config.first_fqs_jiffies)

    # -- forcing quiescent states (rcu_gp_fqs_loop) --------------------------------------------

    def await_fqs(self, jiffies: int) -> None:
        """Wait for a scan: `jiffies`, a third of that under overload, or not at all."""
        if self.rcu.cbovld:
            jiffies = max(1, (jiffies + 2) // 3)
        self.fqs_due = jiffies == 0
        if jiffies and not self.hurry:
            self.fqs_timer.arm(self.cpu, jiffies)
        self.at = "wait_fqs"
        self.wait_fqs()

    def wait_fqs(self) -> None:
        """Sleep until all have reported, or it is time for a scan."""
        rcu = self.rcu
        if not rcu.root.qsmask:
            self.fqs_timer.cancel()
            self.need_gp = False
            self.at = "cleanup"
        elif self.fqs_due or self.hurry or rcu.gp_flags & FQS:
            self.fqs_timer.cancel()
            self.fqs_due = self.hurry = False
            rcu.n_force_qs += 1
            rcu.cbovld, rcu.cbovldnext = rcu.cbovldnext, False
            self.next_leaf()
        else:
            self.sleep()

    def fqs_leaf(self) -> int:
        """Report for the CPUs of a leaf that were idle; return how many were looked at."""
        leaf = self.rcu.leaves[self.leaf]
        self.lock(leaf)
        self.leaf += 1
        self.rcu.cbovldnext |= bool(leaf.cbovldmask)
        examine = self.snapshot if self.first_fqs else self.recheck
        holdouts, idle = 0, 0
        for data in self.rcu.data[leaf.grplo : leaf.grphi + 1]:
            if leaf.qsmask & data.grpmask:
                holdouts += 1
                if examine(data):
                    idle |= data.grpmask
                    data.disable_urgency()
        if idle:
            self.clear_bits(leaf, idle, leaf.gp_seq)
        else:
            self.reported()
        return holdouts

    def snapshot(self, data: RcuData) -> bool:
        """Remember whether a CPU is idle; return it (``rcu_watching_snap_save``)."""
        data.watching_snap = data.watching
        return not data.watching & 1

    def recheck(self, data: RcuData) -> bool:
        """Return whether a CPU was idle since the snapshot, else ask it for help.

        As ``rcu_watching_snap_recheck``: the requests grow more urgent with age.
        """
        if data.watching != data.watching_snap:
            return True
        rcu, age = self.rcu, self.age
        half_stall = age * rcu.config.sched_qs_jiffies >= rcu.config.half_stall_jiffies
        if not data.rcu_need_heavy_qs and (age >= 2 or half_stall or rcu.cbovld):
            data.rcu_need_heavy_qs = True
            data.rcu_urgent_qs = True
        elif age >= 1:
            data.rcu_urgent_qs = True
        if half_stall and age != data.resched_age:
            data.resched_age = age
            data.context.need_resched = True
        return False

    def reported(self) -> None:
        """Go on with the scan behind a report."""
        self.next_leaf()

    def next_leaf(self) -> None:
        """Go on at the next leaf that still waits; behind the last one the scan is over."""
        leaves = self.rcu.leaves
        while self.leaf < len(leaves):
            if leaves[self.leaf].qsmask:
                self.at = "fqs_leaf"
                return
            self.rcu.cbovldnext |= bool(leaves[self.leaf].cbovldmask)
            self.leaf += 1
        self.leaf = 0
        if self.rcu.gp_flags & FQS:
            self.at = "clear_fqs"
        else:
            self.scanned()

    def clear_fqs(self) -> None:
        """Withdraw the request for a scan."""
        self.lock(self.rcu.root)
        self.rcu.gp_flags &= ~FQS
        self.scanned()

    def scanned(self) -> None:
        """Wait again behind a scan; after the first one not at all under overload."""
        if self.first_fqs:
            self.first_fqs = False
            self.hurry = self.rcu.cbovld
        self.await_fqs(self.rcu.config.next_fqs_jiffies)

    # -- end (rcu_gp_cleanup) ------------------------------------------------------------------

    def cleanup(self) -> None:
        """Let one node know that the grace period is over, and look for requests there."""
        rcu, node = self.rcu, self.rcu.nodes[self.node]
        self.lock(node)
        self.check_reported(node)
        if node.gp_seq != rcu.gp_seq:
            raise PropertyViolation("invariant I8", -1, f"node {node.index} missed the start")
        node.gp_seq = seq.end(rcu.gp_seq)
        self.need_gp |= self.note_own(node)
        self.need_gp |= node.future_gp_needed()
        if node.cbovldmask:
            for data in rcu.data[node.grplo : node.grphi + 1]:
                if node.cbovldmask & data.grpmask:
                    data.check_cb_ovld()
        if not self.next_node():
            self.at = "end"

    def end(self) -> None:
        """End the grace period officially; go straight on if another one is wanted."""
        rcu = self.rcu
        self.lock(rcu.root)
        rcu.gp_seq = seq.end(rcu.gp_seq)
        if rcu.probes.gp_ended:
            rcu.probes.gp_ended(rcu.gp_seq)
        self.age_timer.cancel()
        wanted = self.wanted()
        if not rcu.data[self.cpu].accelerate(rcu.root) and wanted:
            rcu.gp_flags = INIT
        else:
            rcu.gp_flags &= INIT  # that accelerate has set
        self.need_gp = False
        self.at = "wait_request"
        self.wait_request()

    def wanted(self) -> bool:
        """Return whether a further grace period was asked for, before or during cleanup."""
        root = self.rcu.root
        return self.need_gp or seq.lt(root.gp_seq, root.gp_seq_needed)

    # -- helpers -------------------------------------------------------------------------------

    def next_node(self) -> bool:
        """Go on at the next node; return False, and go back to the first, behind the last one."""
        self.node += 1
        if self.node < len(self.rcu.nodes):
            return True
        self.node = 0
        return False

    def note_own(self, node: RcuNode) -> bool:
        """Notice for the CPU of the kthread at its leaf; return whether a request was made."""
        own = self.rcu.data[self.cpu]
        return own.leaf is node and own.note_gp_changes()

    def check_reported(self, node: RcuNode) -> None:
        """Check that a node waits for nobody."""
        if node.qsmask:
            what = f"node {node.index} still waits for {node.qsmask:#x}"
            raise PropertyViolation("invariant I6", -1, what)
