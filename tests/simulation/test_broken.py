"""The oracles are alive: each model here is broken on purpose, and a run must say what is wrong."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from rcusim._jit import IntArray
from rcusim.abc import Allocator
from rcusim.cli import main
from rcusim.engine.steps import state
from rcusim.machine.pages import PageAllocator
from rcusim.machine.platform import Platform
from rcusim.rcu.gp import GpKthread
from rcusim.rcu.rcu import Parts as RcuParts
from rcusim.reclaim.base import Surroundings
from rcusim.reclaim.batching import Krc
from rcusim.reclaim.books import Batch, Part
from rcusim.reclaim.g1 import BasicBatching
from rcusim.reclaim.g2 import BulkBlocks
from rcusim.scenario import Scenario
from rcusim.simulation import Parts, simulate
from rcusim.simulation.world import make_slab
from rcusim.slab.slab import Slab
from tests.simulation.rig import small, with_readers


@state
class HastyKthread(GpKthread):
    """Ends each grace period at once."""

    def wait_fqs(self) -> None:
        for node in self.rcu.nodes:
            node.qsmask = 0
        super().wait_fqs()


@state
class DeafKthread(GpKthread):
    """Waits for everybody but CPU 1."""

    def init_node(self) -> None:
        super().init_node()
        self.rcu.leaves[0].qsmask &= ~2


class Dropping(BasicBatching):
    """Loses the last object of the tenth call."""

    calls = 0

    def queue(self, cpu: int, addresses: IntArray, first: int, n: int, object_bytes: int) -> int:
        self.calls += 1
        price_ns = super().queue(cpu, addresses, first, n, object_bytes)
        if self.calls == 10:
            chain = self.krcs[cpu].head
            chain.pool.count[chain.chunks[-1]] -= 1
        return price_ns


class Doubling(BasicBatching):
    """Has an object twice, in place of its neighbour, in the tenth call."""

    calls = 0

    def queue(self, cpu: int, addresses: IntArray, first: int, n: int, object_bytes: int) -> int:
        self.calls += 1
        price_ns = super().queue(cpu, addresses, first, n, object_bytes)
        if self.calls == 10:
            pool = self.around.pool
            chunk = self.krcs[cpu].head.chunks[-1]
            start = chunk * pool.capacity
            pool.addresses[start] = pool.addresses[start + 1]
        return price_ns


@state
class LeakyKrc(Krc):
    """Forgets a page that it should give back."""

    def put_page(self, frame: int) -> None:
        assert frame >= 0
        self.held_pages[0] -= 1


class Leaking(BulkBlocks):
    krc_class = LeakyKrc


@state
class MisfilingKrc(Krc):
    """Books one object of each batch on the wrong part."""

    def collect(self, work: object) -> Batch:
        batch = super().collect(work)  # type: ignore[arg-type]
        self.around.books.move(Part.WAITING_GP, Part.COLLECTING_LIST, 1, 128)
        return batch


class Misfiling(BasicBatching):
    krc_class = MisfilingKrc


class Shrinking(BasicBatching):
    """Takes objects for half as large as they are."""

    def queue(self, cpu: int, addresses: IntArray, first: int, n: int, object_bytes: int) -> int:
        return super().queue(cpu, addresses, first, n, object_bytes // 2)


class Forgetful(Slab):
    """Does not take back the last object of each release."""

    def release(self, cpu: int, addresses: IntArray, first: int, n: int, step: int) -> None:
        super().release(cpu, addresses, first, max(0, n - 1), step)


def forgetful(scenario: Scenario, platform: Platform, pages: PageAllocator) -> Allocator:
    return make_slab(scenario, platform, pages, Forgetful)


def rcu(**classes: type) -> Parts:
    return Parts(rcu=RcuParts(**classes))


def generation(make: Callable[[Surroundings], object]) -> Parts:
    return Parts(generation=make)  # type: ignore[arg-type]


READER = r"reader/\w+ on CPU \d+, which began at \d+ ns"
OBJECT = r"object 0x[0-9a-f]+"


@pytest.mark.parametrize(
    ("scenario", "parts", "says"),
    [
        (with_readers("G2"), rcu(gp=HastyKthread), rf"interval law violated at \d+ ns: .*{READER}"),
        (with_readers("G1"), rcu(gp=DeafKthread), rf"interval law violated at \d+ ns: .*{READER}"),
        (small("G1"), generation(Dropping), rf"conservation of \w+ violated at \d+ ns: .*{OBJECT}"),
        (small("G1"), generation(Doubling), rf"ledger violated at \d+ ns: {OBJECT} .* is freed .* while it is free"),
        (small("G2"), generation(Leaking), r"conservation of pages violated at \d+ ns: \d+ pages"),
        (small("G1"), generation(Misfiling), rf"conservation of parts violated at \d+ ns: .*{OBJECT}"),
        (small("G1"), generation(Shrinking), r"conservation of bytes violated at \d+ ns"),
        (small("G1"), Parts(allocator=forgetful), r"conservation of objects violated at \d+ ns"),
    ],
    ids=["gp-at-once", "cpu-skipped", "dropped", "freed-twice", "page-leaked", "part-moved", "half-as-large",
        "not-taken-back"],
)  # fmt: skip
def test_a_broken_model_is_caught(scenario: Scenario, parts: Parts, says: str) -> None:
    run = simulate(scenario, parts=parts)
    assert not run.complete
    assert len(run.violations) == 1
    assert re.search(says, run.violations[0]), run.violations[0]


@pytest.mark.parametrize(
    "scenario",
    [with_readers("G0"), with_readers("G1"), with_readers("G2")],
    ids=lambda s: s.reclaim.generation,
)
def test_the_same_scenarios_are_clean_with_the_right_model_and_the_law_was_not_vacuous(
    scenario: Scenario,
) -> None:
    run = simulate(scenario)
    assert run.complete, run.reason
    counters = run.statistics.counters
    assert counters["objects_freed_under_reader"] > 1000
    assert counters["recounts"] > 3


FLOOD = """
[machine]
cpus = 4
memory_mib = 256
[reclaim]
generation = "G1"
[workload]
kind = "rcuscale"
kfree_alloc_num = 500
kfree_loops = 40
[readers]
threads = 2
long_threads = 1
long_section_ms = 15
long_gap_ms = 1
"""


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        (rcu(gp=HastyKthread), READER),
        (rcu(gp=DeafKthread), READER),
        (generation(Dropping), OBJECT),
        (generation(Doubling), OBJECT),
        (generation(Misfiling), OBJECT),
    ],
    ids=["gp-at-once", "cpu-skipped", "dropped", "freed-twice", "part-moved"],
)
def test_the_command_says_what_broke_and_exits_with_1(
    parts: Parts,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "flood.toml"
    file.write_text(FLOOD)
    monkeypatch.setattr("rcusim.simulation.simulate", functools.partial(simulate, parts=parts))
    assert main(["run", str(file), "--out", str(tmp_path / "out")]) == 1
    written = capsys.readouterr().err
    assert re.search(says, written), written
    assert re.search(r"violated at \d+ ns", written)
    assert (tmp_path / "out" / "result.json").exists()
