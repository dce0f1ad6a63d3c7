"""Kernel text and specification of SLUB, driven by the same operations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rcusim.slab.slub import COUNTERS
from rcusim.slab.slub_layout import RULES
from tests.slab.rig import TEXTS
from tests.slab.slub_rig import Pair, text_in_use
from tests.slab.test_against_specification import shuffled

# of each: slabs of one page and of several, many objects and few, requests above the largest cache
WORLDS = ((24,), (8, 100, 200), (512, 32), (4096, 64, 9000), (1024, 8192, 128), (2000, 300, 20000))
PREDICATES = (
    ("page", False), ("same_slab_page", True), ("same_slab_page", False), ("bound", True),
)  # fmt: skip

Operation = tuple[str, int, int, int]

operations = st.lists(
    st.tuples(
        st.sampled_from(
            ("allocate", "allocate", "at once", "oldest", "newest", "scattered", "bulk", "bulk")
        ),
        st.integers(0, 2),  # CPU
        st.integers(0, 7),  # cache, or spacing
        st.integers(0, 400),  # how many
    ),
    min_size=5,
    max_size=25,
)


@pytest.fixture(scope="module", params=TEXTS)
def text(request: pytest.FixtureRequest) -> Iterator[str]:
    name: str = request.param
    with text_in_use(name):
        yield name


def perform(pair: Pair, what: str, cpu: int, which: int, n: int) -> None:
    """Do one operation on both."""
    count = min(n, len(pair.live))
    if what in {"allocate", "at once"}:
        pair.allocate(cpu, which % len(pair.slub.caches), n, bulk=what == "at once")
    elif what == "oldest":
        pair.release(cpu, range(count), bulk=False, step=(1, -1, 2, -3)[which % 4])
    elif what == "newest":
        pair.release(cpu, range(len(pair.live))[::-1][:count], bulk=which % 2 == 0)
    elif what == "scattered":
        order = shuffled(len(pair.live), n * 8 + which)
        pair.release(cpu, order[:count], bulk=False)
    else:
        # runs of neighbours, some out of place, so that the look-ahead has something to find
        order = list(range(len(pair.live)))[:count]
        moved = order[:: which + 2]
        pair.release(cpu, [i for i in order if i not in moved] + moved, bulk=True)


@pytest.mark.parametrize("rules", RULES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.sampled_from(WORLDS),
    minimum=st.sampled_from((8, 128)),
    cpus=st.integers(1, 3),
    spare_pages=st.sampled_from((1, 2, 3, 7, 30, 61, 200)),
    predicate=st.sampled_from(PREDICATES),
    random_seed=st.sampled_from((None, 1)),
    todo=operations,
)
def test_both_agree_after_every_operation(
    text: str,
    rules: str,
    sizes: tuple[int, ...],
    minimum: int,
    cpus: int,
    spare_pages: int,
    predicate: tuple[str, bool],
    random_seed: int | None,
    todo: list[Operation],
) -> None:
    name, end_tokens = predicate if rules == "slub-3.18" else PREDICATES[0]
    pair = Pair.make(
        text, rules, sizes, cpus=cpus, minimum_bytes=minimum, memory_mib=1,
        spare_pages=spare_pages, predicate=name, end_tokens=end_tokens, random_seed=random_seed,
    )  # fmt: skip
    for what, cpu, which, n in todo:
        perform(pair, what, cpu % cpus, which, n)
    pair.release(0, range(len(pair.live)), bulk=False)
    assert pair.slub.pages() <= pair.slub.drained_pages_most()


@pytest.mark.parametrize("rules", RULES)
def test_a_long_life_takes_every_path(text: str, rules: str) -> None:
    pair = Pair.make(text, rules, (24, 512, 4096, 10000), cpus=2, memory_mib=2, random_seed=5)
    for turn in range(24):
        cpu = turn % 2
        for cache in range(len(pair.slub.caches)):
            pair.allocate(cpu, cache, 150 if turn % 3 else 700, bulk=turn % 5 == 0)
        order = shuffled(len(pair.live), turn)
        pair.release(1 - cpu, order[: len(order) // 2], bulk=turn % 4 == 0)
        if turn % 4 == 3:
            pair.release(cpu, range(len(pair.live)), bulk=turn % 8 == 3)
    seen = {
        name: sum(pair.slub.counters(number)[name] for number in range(len(pair.slub.caches)))
        for name in COUNTERS
    }
    assert [name for name, count in seen.items() if not count] == []
