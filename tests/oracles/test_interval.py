from __future__ import annotations

import pytest

from rcusim._jit import integers
from rcusim.errors import PropertyViolation
from rcusim.oracles.interval import IntervalLaw
from rcusim.probes import Probes


class Scene:
    """A law, its probes, and the counter of queue operations."""

    def __init__(self) -> None:
        self.stamp = 0
        self.law = IntervalLaw(lambda: 5, lambda: self.stamp)
        self.probes = Probes()
        self.law.attach(self.probes)
        self.objects = integers(4, fill=0x77)

    def queue(self) -> int:
        self.stamp += 1
        return self.stamp

    def free(self, newest: int) -> None:
        self.probes.freeing(2, self.objects, 0, 4, 1, newest)


def test_an_object_queued_before_the_section_began_may_go() -> None:
    scene = Scene()
    newest = scene.queue()
    scene.probes.reader_locked("r", 1)
    scene.free(newest)
    assert scene.law.under_reader == 4


def test_an_object_queued_after_the_section_began_may_not() -> None:
    scene = Scene()
    scene.probes.reader_locked("r", 1)
    newest = scene.queue()
    with pytest.raises(PropertyViolation, match="object 0x77 is freed on CPU 2 while r on CPU 1"):
        scene.free(newest)


def test_after_the_section_it_may() -> None:
    scene = Scene()
    scene.probes.reader_locked("r", 1)
    newest = scene.queue()
    scene.probes.reader_unlocked("r", 1)
    scene.free(newest)
    assert (scene.law.checked, scene.law.under_reader) == (4, 0)


def test_the_oldest_section_decides() -> None:
    scene = Scene()
    scene.probes.reader_locked("old", 0)
    newest = scene.queue()
    scene.probes.reader_locked("young", 1)
    scene.probes.reader_unlocked("young", 1)
    scene.probes.reader_locked("young", 1)
    with pytest.raises(PropertyViolation, match="while old on CPU 0"):
        scene.free(newest)


def test_a_grace_period_must_outlast_the_sections_that_began_before_it() -> None:
    scene = Scene()
    scene.probes.reader_locked("r", 1)
    scene.probes.gp_started(1)
    with pytest.raises(PropertyViolation, match="grace period 4 ends while r on CPU 1"):
        scene.probes.gp_ended(4)


def test_it_need_not_wait_for_sections_that_began_after_it() -> None:
    scene = Scene()
    scene.probes.gp_started(1)
    scene.probes.reader_locked("r", 1)
    scene.probes.gp_ended(4)
    assert list(scene.law.open) == ["r"]
