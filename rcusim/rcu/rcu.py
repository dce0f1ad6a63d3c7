"""RCU as the rest of the kernel sees it: everything built, wired, and behind one face.

Tree RCU of 6.18 with normal grace periods. Readers of this version hold off preemption (a
CONFIG_PREEMPT_RCU=n kernel, or regions with preemption disabled): whoever drives a reader keeps its
CPU from switching. Preemptible readers, with the lists of blocked tasks that they need, are left
out for now; so are expedited and polled grace periods, offloaded callbacks, CPU hotplug,
``rcu_barrier()`` and stall warnings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from rcusim.abc import Callbacks
from rcusim.engine.steps import Machine, Price, Timer
from rcusim.errors import InternalError, PropertyViolation
from rcusim.machine.context import CpuContext
from rcusim.probes import Probes
from rcusim.rcu.config import RcuConfig
from rcusim.rcu.core import RcuCore
from rcusim.rcu.gp import GpKthread
from rcusim.rcu.reporter import checked_prices
from rcusim.rcu.segcblist import NEXT, Segcblist
from rcusim.rcu.state import RcuData, RcuState
from rcusim.rcu.tick import RcuTick
from rcusim.rcu.tree import RcuNode, build_nodes


@attrs.frozen
class Parts:
    """The class of each role; a mutant or a user's class replaces one (``attrs.evolve``)."""

    state: type[RcuState] = RcuState
    node: type[RcuNode] = RcuNode
    data: type[RcuData] = RcuData
    cblist: type[Segcblist] = Segcblist
    gp: type[GpKthread] = GpKthread
    core: type[RcuCore] = RcuCore
    tick: type[RcuTick] = RcuTick


@attrs.define(eq=False)
class Rcu:
    """RCU of a world.

    Attributes
    ----------
    state : RcuState
        What all CPUs share; the tree is in it.
    data : tuple of RcuData
        By CPU.
    gp : GpKthread
        The kthread; asleep until a grace period is wanted.
    cores : tuple of RcuCore
        By CPU: the softirq handlers, asleep unless raised.
    ticks : tuple of RcuTick
        By CPU: one step at each tick.
    """

    config: RcuConfig
    probes: Probes
    state: RcuState
    data: tuple[RcuData, ...]
    gp: GpKthread
    cores: tuple[RcuCore, ...]
    ticks: tuple[RcuTick, ...]
    nesting: dict[str, int] = attrs.field(factory=dict)

    @classmethod
    def build(
        cls,
        config: RcuConfig,
        *,
        outbox: list[Machine],
        armed: list[Timer],
        prices: Mapping[str, Mapping[str, Price]],
        probes: Probes,
        cpus: Sequence[CpuContext],
        parts: Parts = Parts(),
    ) -> Rcu:
        """Build RCU for the CPUs of `cpus`, all online and watched, with no grace period wanted.

        Parameters
        ----------
        config : RcuConfig
            Kernel configuration.
        outbox, armed : list
            Where woken machines and armed timers are left.
        prices : mapping
            Class name to step name to price.
        probes : Probes
            Where grace periods and readers are announced.
        cpus : sequence of CpuContext
            The context of each CPU.
        parts : Parts
            The class of each role.

        Raises
        ------
        KeyError
            When a step has no price.
        InternalError
            When the number of contexts is not that of CPUs.
        """
        if len(cpus) != config.cpus:
            raise InternalError(f"{len(cpus)} contexts for {config.cpus} CPUs")
        nodes = build_nodes(config, parts.node)
        leaves = tuple(node for node in nodes if node.is_leaf)
        rcu = parts.state(config=config, probes=probes, nodes=nodes, leaves=leaves)
        rcu.data = tuple(_data(rcu, parts, context) for context in cpus)
        gp_prices = checked_prices(prices, parts.gp, parts.gp.STEPS)
        gp = parts.gp(name="gp", outbox=outbox, armed=armed, prices=gp_prices, rcu=rcu)
        rcu.kthread = gp
        cores = _cores(rcu, parts, outbox, prices)
        ticks = _ticks(rcu, parts, outbox, prices, cores)
        return cls(config, probes, rcu, rcu.data, gp, cores, ticks)

    # -- callbacks -----------------------------------------------------------------------------

    def call(self, cpu: int, entry: Callbacks) -> None:
        """Queue a run of callbacks (``call_rcu``); this starts nothing unless there are too many.

        The rules of overload are applied once for the whole run.
        """
        data = self.data[cpu]
        first = not data.cblist.pending and entry.count == 1
        data.check_cb_ovld()
        data.cblist.enqueue(entry)
        if not data.watching & 1:
            self.cores[cpu].wake()
        data.handle_overload(first=first)

    def extend(self, cpu: int, added: int) -> None:
        """Note that the run at the tail of NEXT has just grown by `added` callbacks."""
        data = self.data[cpu]
        data.check_cb_ovld()
        data.cblist.extend(added)
        data.handle_overload(first=False)

    def next_tail(self, cpu: int) -> Callbacks | None:
        """Return the last run of NEXT, which may still be extended, or None."""
        runs = self.data[cpu].cblist.segments[NEXT]
        return runs[-1] if runs else None

    # -- numbers -------------------------------------------------------------------------------

    @property
    def gp_seq(self) -> int:
        """The official number, ``rcu_state.gp_seq``."""
        return self.state.gp_seq

    @property
    def completed(self) -> int:
        """Grace periods that have ended since boot."""
        return self.state.completed

    def snapshot(self) -> int:
        """Return the number that proves a full grace period from now; starts none."""
        return self.state.snapshot()

    # -- hooks of a CPU: each is one short atomic block ----------------------------------------

    def note_context_switch(self, cpu: int) -> None:
        """Record that the CPU switches tasks (``rcu_note_context_switch``)."""
        data = self.data[cpu]
        data.record_qs()
        if not self.config.preempt_rcu:
            data.help_urgent_qs()

    def cond_resched(self, cpu: int) -> None:
        """Help an old grace period in a non-preemptible kernel (``rcu_all_qs``)."""
        data = self.data[cpu]
        if not self.config.preempt_rcu and data.help_urgent_qs():
            data.record_qs()

    def softirq_qs(self, cpu: int) -> None:
        """Record that ksoftirqd is between two handlers (``rcu_softirq_qs``)."""
        self.data[cpu].record_qs()

    def idle_enter(self, cpu: int) -> None:
        """Stop watching a CPU that becomes idle (``ct_idle_enter``)."""
        self._change_watching(cpu, watched=True)

    def idle_exit(self, cpu: int) -> None:
        """Watch a CPU that leaves idle (``ct_idle_exit``)."""
        self._change_watching(cpu, watched=False)

    def irq_enter(self, cpu: int) -> None:
        """Watch an idle CPU for an interrupt, its softirqs included; else do nothing."""
        data = self.data[cpu]
        if not data.watching & 1:
            data.watching += 1
            data.irq_nesting = 1
        elif data.irq_nesting:
            data.irq_nesting += 2

    def irq_exit(self, cpu: int) -> None:
        """Return from an interrupt: stop watching if idle was interrupted."""
        data = self.data[cpu]
        if data.irq_nesting == 1:
            data.irq_nesting = 0
            data.watching += 1
        elif data.irq_nesting:
            data.irq_nesting -= 2

    def needs_cpu(self, cpu: int) -> bool:
        """Return whether the tick must go on although the CPU is idle (``rcu_needs_cpu``)."""
        return self.data[cpu].cblist.n_cbs > 0

    def _change_watching(self, cpu: int, *, watched: bool) -> None:
        data = self.data[cpu]
        if bool(data.watching & 1) is not watched or data.irq_nesting:
            raise InternalError(f"cpu{cpu} enters or leaves idle twice, or within an interrupt")
        data.watching += 1

    # -- readers -------------------------------------------------------------------------------

    def read_lock(self, cpu: int, reader: str) -> None:
        """Begin a read-side critical section; nested ones belong to the outermost.

        Raises
        ------
        PropertyViolation
            When RCU does not watch the CPU: the reader would be invisible.
        """
        if not self.data[cpu].watching & 1:
            raise PropertyViolation("invariant I12", -1, f"{reader} reads on idle cpu{cpu}")
        nesting = self.nesting.get(reader, 0)
        self.nesting[reader] = nesting + 1
        if not nesting and self.probes.reader_locked:
            self.probes.reader_locked(reader, cpu)

    def read_unlock(self, cpu: int, reader: str) -> None:
        """End a read-side critical section.

        Raises
        ------
        PropertyViolation
            When there is none.
        """
        nesting = self.nesting.get(reader, 0) - 1
        if nesting < 0:
            raise PropertyViolation("invariant I12", -1, f"{reader} unlocks what it did not lock")
        if nesting:
            self.nesting[reader] = nesting
            return
        del self.nesting[reader]
        if self.probes.reader_unlocked:
            self.probes.reader_unlocked(reader, cpu)

    # -- reports -------------------------------------------------------------------------------

    def describe(self) -> list[str]:
        """Return who waits for what, in words, for the report of a hang."""
        rcu = self.state
        lines = [f"gp {_where(self.gp)}, gp_seq {rcu.gp_seq:#x}, flags {rcu.gp_flags}"]
        lines += [
            f"node {node.index} (CPUs {node.grplo}-{node.grphi}): waits for {node.qsmask:#x}"
            for node in rcu.nodes
            if node.qsmask
        ]
        lines += [
            f"cpu{data.cpu}: callbacks {data.cblist.seglen}, core {_where(core)}"
            for data, core in zip(self.data, self.cores, strict=True)
            if data.cblist.n_cbs or not core.asleep
        ]
        return lines


def _where(machine: Machine) -> str:
    return f"{'asleep' if machine.asleep else 'awake'} at {machine.at}"


def _data(rcu: RcuState, parts: Parts, context: CpuContext) -> RcuData:
    """Return the data of one CPU."""
    leaf = rcu.leaves[context.cpu // (rcu.leaves[0].grphi + 1)]  # all but the last are full
    return parts.data(
        cpu=context.cpu,
        rcu=rcu,
        leaf=leaf,
        grpmask=1 << context.cpu - leaf.grplo,
        context=context,
        cblist=parts.cblist(),
        blimit=rcu.config.blimit,
    )


def _cores(
    rcu: RcuState,
    parts: Parts,
    outbox: list[Machine],
    prices: Mapping[str, Mapping[str, Price]],
) -> tuple[RcuCore, ...]:
    """Return the softirq handlers of all CPUs."""
    table = checked_prices(prices, parts.core, parts.core.STEPS)
    return tuple(
        parts.core(
            name=f"cpu{data.cpu}/core",
            cpu=data.cpu,
            outbox=outbox,
            prices=table,
            rcu=rcu,
            data=data,
        )
        for data in rcu.data
    )


def _ticks(
    rcu: RcuState,
    parts: Parts,
    outbox: list[Machine],
    prices: Mapping[str, Mapping[str, Price]],
    cores: tuple[RcuCore, ...],
) -> tuple[RcuTick, ...]:
    """Return RCU's part of the ticks of all CPUs."""
    table = checked_prices(prices, parts.tick, parts.tick.STEPS)
    return tuple(
        parts.tick(
            name=f"cpu{data.cpu}/tick",
            cpu=data.cpu,
            outbox=outbox,
            prices=table,
            data=data,
            core=core,
        )
        for data, core in zip(rcu.data, cores, strict=True)
    )
