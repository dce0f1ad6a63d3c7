"""Reporting quiescent states up the tree (``rcu_report_qs_rnp``, ``rcu_report_qs_rsp``, 6.18).

The RCU core of a CPU reports for itself, the grace-period kthread for CPUs that it found idle. A
report takes one node's lock after the other; each node is a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from rcusim.engine.steps import Machine, Price, state, step_prices, wiring
from rcusim.errors import InternalError
from rcusim.rcu.state import FQS, RcuState
from rcusim.rcu.tree import RcuNode


def checked_prices(
    table: Mapping[str, Mapping[str, Price]], machine: type[Machine], steps: tuple[str, ...]
) -> dict[str, Price]:
    """Return the prices of a machine class and make sure that every step has one.

    Raises
    ------
    KeyError
        When a price is missing; names class and step.
    InternalError
        When a step names no method.
    """
    prices = step_prices(table, machine)
    for step in steps:
        if not callable(getattr(machine, step, None)):
            raise InternalError(f"{machine.__name__} has no method for its step {step}")
        if step not in prices:
            raise KeyError(f"no price for step {step} of {machine.__name__}")
    return prices


@state
class Reporter(Machine):
    """A machine that reports quiescent states.

    Attributes
    ----------
    up_node, up_mask, up_seq : int
        Where a walk up the tree has come: the next node, the bits to clear there, and the grace
        period to which the report belongs. -1, 0, 0 without a walk.
    """

    STEPS: ClassVar[tuple[str, ...]] = ("report_up",)

    rcu: RcuState = wiring()
    up_node: int = -1
    up_mask: int = 0
    up_seq: int = 0

    def lock(self, node: RcuNode) -> None:
        """Note that this step holds the lock of `node` for its base price."""
        self.held.append((node.lock, self.prices[self.at][0]))

    def report_up(self) -> None:
        """Go on with a report at the next node above."""
        node = self.rcu.nodes[self.up_node]
        self.lock(node)
        self.clear_bits(node, self.up_mask, self.up_seq)

    def clear_bits(self, node: RcuNode, mask: int, gp_seq: int) -> None:
        """Clear bits of a node, whose lock is held; go on above if it is the last of them.

        A node that was reported already, or belongs to another grace period, ends the walk. At the
        root the kthread is woken: the last reporter ends the grace period.
        """
        self.up_node, self.up_mask, self.up_seq = -1, 0, 0
        if not node.qsmask & mask or node.gp_seq != gp_seq:
            self.reported()
            return
        node.qsmask &= ~mask
        if node.qsmask:
            self.reported()
        elif node.parent is not None:
            self.up_node, self.up_mask, self.up_seq = node.parent.index, node.grpmask, gp_seq
            self.at = "report_up"
        else:
            self.rcu.gp_flags |= FQS
            self.rcu.wake_kthread()
            self.reported()

    def reported(self) -> None:
        """Go on behind a walk up the tree."""
        raise NotImplementedError
