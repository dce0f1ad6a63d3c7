"""Kernel text and specification, driven by the same operations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rcusim.engine.choices import Stream
from rcusim.slab.layout import LAYOUTS
from tests.slab.rig import TEXTS, Pair, text_in_use

# of each: classes that share managers, slabs of one page and of two, one object and many a slab
WORLDS = ((24,), (24, 100, 200), (512, 32), (4096, 64), (1024, 8192, 128), (2000, 300))
SECOND_NS = 1_000_000_000

Operation = tuple[str, int, int, int]

operations = st.lists(
    st.tuples(
        st.sampled_from(
            ("allocate", "allocate", "oldest", "newest", "scattered", "scattered", "bulk", "reap")
        ),
        st.integers(0, 2),  # CPU
        st.integers(0, 7),  # cache, or spacing
        st.integers(0, 400),  # how many, or how long since the last reap
    ),
    min_size=5,
    max_size=25,
)


@pytest.fixture(scope="module", params=TEXTS)
def text(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    with text_in_use(name):
        yield name


def shuffled(n: int, seed: int) -> list[int]:
    order = list(range(n))
    draws = Stream.named(seed, "order of freeing")
    for i in range(n - 1, 0, -1):
        j = draws.below(i + 1)
        order[i], order[j] = order[j], order[i]
    return order


def perform(pair: Pair, what: str, cpu: int, which: int, n: int, now_ns: int) -> int:
    """Do one operation on both; return the time after it."""
    count = min(n, len(pair.live))
    if what == "allocate":
        pair.allocate(cpu, which % len(pair.slab.caches), n)
    elif what == "oldest":
        pair.release(cpu, range(count), bulk=False, step=(1, -1, 2, -3)[which % 4])
    elif what == "newest":
        pair.release(cpu, range(len(pair.live))[::-1][:count], bulk=which % 2 == 0)
    elif what == "scattered":
        order = shuffled(len(pair.live), n * 8 + which)
        pair.release(cpu, order[:count], bulk=False)
    elif what == "bulk":
        order = shuffled(len(pair.live), n * 8 + which)
        pair.release(cpu, order[: 2 * count], bulk=True)
    else:
        now_ns += n * SECOND_NS // 50
        pair.reap(cpu, now_ns)
    return now_ns


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.sampled_from(WORLDS),
    minimum=st.sampled_from((32, 128)),
    cpus=st.integers(1, 3),
    spare_pages=st.sampled_from((1, 2, 3, 7, 30, 61, 200)),
    todo=operations,
)
def test_both_agree_after_every_operation(
    text: str,
    layout: str,
    sizes: tuple[int, ...],
    minimum: int,
    cpus: int,
    spare_pages: int,
    todo: list[Operation],
) -> None:
    pair = Pair.make(
        text, layout, sizes, cpus=cpus, minimum_bytes=minimum, memory_mib=1, spare_pages=spare_pages
    )
    now_ns = 0
    for what, cpu, which, n in todo:
        now_ns = perform(pair, what, cpu % cpus, which, n, now_ns)
    pair.release(0, range(len(pair.live)), bulk=False)
    for second in range(4):
        pair.reap(0, now_ns + 8 * second * SECOND_NS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_long_life_takes_every_path(text: str, layout: str) -> None:
    pair = Pair.make(text, layout, (24, 512, 4096), cpus=2, memory_mib=1)
    now_ns = 0
    for turn in range(24):
        cpu = turn % 2
        for cache in range(len(pair.slab.caches)):
            pair.allocate(cpu, cache, 150 if turn % 3 else 700)
        order = shuffled(len(pair.live), turn)
        pair.release(1 - cpu, order[: len(order) // 2], bulk=turn % 4 == 0)
        if turn % 4 == 3:
            pair.release(cpu, range(len(pair.live)), bulk=False)
        if turn % 6 == 5:
            now_ns += 5 * SECOND_NS
            for reaper in (0, 1, 0, 1):
                pair.reap(reaper, now_ns)
    seen: dict[str, int] = {}
    for number in range(len(pair.slab.caches)):
        for name, count in pair.slab.counters(number).items():
            seen[name] = seen.get(name, 0) + count
    late = LAYOUTS[layout].late_rules
    absent = {"slabs_destroyed_locked"} if late else {"fresh_taken"}
    if all(cache.management < 0 for cache in pair.slab.caches):
        absent |= {"managers_taken", "managers_given"}
    assert {name for name, count in seen.items() if not count} == absent
