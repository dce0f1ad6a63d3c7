"""Shapes of the tree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcusim.rcu import seq
from rcusim.rcu.config import RcuConfig
from rcusim.rcu.tree import Geometry, RcuNode, build_nodes


@pytest.mark.parametrize(
    ("cpus", "nodes", "per_leaf"),
    [
        (1, (1,), 1),
        (16, (1,), 16),
        (17, (1, 2), 9),
        (24, (1, 2), 12),
        (32, (1, 2), 16),
        (48, (1, 3), 16),
        (64, (1, 4), 16),
        (128, (1, 8), 16),
        (256, (1, 16), 16),
        (1024, (1, 64), 16),
        (1025, (1, 2, 65), 16),
        (4096, (1, 4, 256), 16),
        (65536, (1, 64, 4096), 16),
        (65537, (1, 2, 65, 4097), 16),
    ],
)
def test_geometry(cpus: int, nodes: tuple[int, ...], per_leaf: int) -> None:
    geometry = Geometry.of(cpus)
    assert (geometry.nodes, geometry.spread[-1]) == (nodes, per_leaf)


def test_deep_tree_of_few_cpus() -> None:
    assert Geometry.of(8, fanout_leaf=2, fanout=2) == Geometry((1, 2, 4), (2, 2, 2))


def test_seventeen_cpus_make_leaves_of_nine_and_eight() -> None:
    root, left, right = build_nodes(RcuConfig(cpus=17), RcuNode)
    assert (left.grplo, left.grphi, right.grplo, right.grphi) == (0, 8, 9, 16)
    assert (left.qsmaskinit, right.qsmaskinit) == (0x1FF, 0xFF)
    assert (left.grpmask, right.grpmask, root.qsmaskinit) == (1, 2, 3)
    assert left.parent is root
    assert (root.is_leaf, left.is_leaf) == (False, True)


@given(cpus=st.integers(1, 128), leaf=st.integers(2, 6), fanout=st.integers(4, 8))
def test_every_cpu_is_below_one_leaf_and_every_bit_has_a_child(
    cpus: int, leaf: int, fanout: int
) -> None:
    nodes = build_nodes(RcuConfig(cpus=cpus, rcu_fanout_leaf=leaf, rcu_fanout=fanout), RcuNode)
    leaves = [node for node in nodes if node.is_leaf]
    covered = [cpu for node in leaves for cpu in range(node.grplo, node.grphi + 1)]
    assert covered == list(range(cpus))
    assert [node.index for node in nodes] == list(range(len(nodes)))
    for node in nodes:
        children = [child for child in nodes if child.parent is node]
        if children:
            assert sum(child.grpmask for child in children) == node.qsmaskinit
            assert len(children) <= fanout
            assert (children[0].grplo, children[-1].grphi) == (node.grplo, node.grphi)


def test_a_request_for_a_later_grace_period_is_kept() -> None:
    (node,) = build_nodes(RcuConfig(cpus=1), RcuNode)
    assert not node.future_gp_needed()
    node.gp_seq_needed = seq.snap(node.gp_seq)
    assert node.future_gp_needed()
    node.gp_seq = node.gp_seq_needed
    assert not node.future_gp_needed()


def test_an_old_request_follows_the_number() -> None:
    (node,) = build_nodes(RcuConfig(cpus=1), RcuNode)
    node.gp_seq = (node.gp_seq + 40) & seq.MASK
    assert not node.future_gp_needed()
    assert node.gp_seq_needed == node.gp_seq
