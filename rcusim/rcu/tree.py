"""The combining tree of ``rcu_node`` structures (``rcu_init_geometry``, ``rcu_init_one``, 6.18).

Models the balanced tree that kernels build by default, in breadth-first order. Leaves out
``rcu_fanout_exact``, CPU hotplug (``qsmaskinitnext``), the lists of blocked readers, the expedited
masks, and the separate locks of forced quiescent states.
"""

from __future__ import annotations

import attrs

from rcusim.abc import Hold
from rcusim.engine.steps import state, wiring
from rcusim.rcu import seq
from rcusim.rcu.config import RcuConfig


@attrs.frozen
class Geometry:
    """The shape of the tree.

    Parameters
    ----------
    nodes : tuple of int
        Nodes of each level, root first (``num_rcu_lvl``).
    spread : tuple of int
        Children, or CPUs, of a node of each level, root first (``levelspread``).
    """

    nodes: tuple[int, ...]
    spread: tuple[int, ...]

    @classmethod
    def of(cls, cpus: int, fanout_leaf: int = 16, fanout: int = 64) -> Geometry:
        """Return the balanced tree for a number of CPUs.

        Examples
        --------
        >>> Geometry.of(17)  # leaves of nine and eight CPUs, not of sixteen and one
        Geometry(nodes=(1, 2), spread=(2, 9))
        """
        capacities = [fanout_leaf]
        while capacities[-1] < cpus:
            capacities.append(capacities[-1] * fanout)
        nodes = tuple(-(-cpus // capacity) for capacity in reversed(capacities))
        below = (*nodes[1:], cpus)
        spread = tuple(-(-children // n) for n, children in zip(nodes, below, strict=True))
        return cls(nodes, spread)


@state
class RcuNode:
    """A node of the tree.

    Parameters
    ----------
    index : int
        Position in the array of all nodes, breadth first.
    level : int
        0 is the root.
    grplo, grphi : int
        First and last CPU below this node.
    grpmask : int
        Its bit in the parent; 0 for the root.
    parent : RcuNode or None
        The node above.
    lock : Hold
        ``rcu_node.lock``.
    gp_seq : int
        The grace period as far as this node knows: follows ``rcu_state.gp_seq`` at the start and
        leads it at the end.
    gp_seq_needed : int
        The furthest grace period that anyone below has asked for.
    qsmask : int
        Who must still report: CPUs of a leaf, children of an inner node.
    qsmaskinit : int
        Who must report in the next grace period.
    cbovldmask : int
        CPUs of a leaf that have too many callbacks.
    """

    index: int = wiring()
    level: int = wiring()
    grplo: int = wiring()
    grphi: int = wiring()
    grpmask: int = wiring()
    parent: RcuNode | None = wiring()
    is_leaf: bool = wiring()
    lock: Hold = wiring()
    gp_seq: int = seq.INITIAL
    gp_seq_needed: int = seq.INITIAL
    qsmask: int = 0
    qsmaskinit: int = 0
    cbovldmask: int = 0

    def future_gp_needed(self) -> bool:
        """Return whether a later grace period was asked for here (``rcu_future_gp_cleanup``)."""
        if seq.lt(self.gp_seq, self.gp_seq_needed):
            return True
        self.gp_seq_needed = self.gp_seq  # keeps a number that nobody needs from wrapping
        return False


def build_nodes(config: RcuConfig, node: type[RcuNode]) -> tuple[RcuNode, ...]:
    """Return all nodes of the tree, breadth first; every CPU is online."""
    geometry = Geometry.of(config.cpus, config.rcu_fanout_leaf, config.rcu_fanout)
    nodes: list[RcuNode] = []
    above = 0  # index of the first node of the level above
    for level, count in enumerate(geometry.nodes):
        first = len(nodes)
        stride = 1
        for spread in geometry.spread[level:]:
            stride *= spread
        for j in range(count):
            siblings = geometry.spread[level - 1] if level else 1
            parent = nodes[above + j // siblings] if level else None
            made = node(
                index=len(nodes),
                level=level,
                grplo=j * stride,
                grphi=min((j + 1) * stride, config.cpus) - 1,
                grpmask=1 << j % siblings if level else 0,
                parent=parent,
                is_leaf=level == len(geometry.nodes) - 1,
                lock=Hold(name=f"rcu_node {len(nodes)}"),
            )
            if parent is not None:
                parent.qsmaskinit |= made.grpmask
            if made.is_leaf:
                made.qsmaskinit = (1 << (made.grphi - made.grplo + 1)) - 1
            nodes.append(made)
        above = first
    return tuple(nodes)
