from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcusim.machine.pages import PageAllocator, Watermarks


@pytest.mark.parametrize(
    ("mib", "min_kib"), [(1024, 4096), (4096, 8192), (16384, 16384), (16, 512), (1 << 20, 65536)]
)
def test_watermarks_of_the_reference(mib: int, min_kib: int) -> None:
    marks = Watermarks.of(mib * 256)
    assert marks.min_pages == min_kib // 4
    gap = max(marks.min_pages // 4, mib * 256 // 1000)
    assert (marks.low_pages, marks.high_pages) == (marks.min_pages + gap, marks.min_pages + 2 * gap)


def test_nowait_fails_exactly_at_min() -> None:
    pages = PageAllocator(16)
    while pages.free_pages > pages.watermarks.min_pages + 1:
        assert pages.take(0, 0) >= 0
    assert pages.take_nowait() >= 0  # one page above min: granted
    assert pages.free_pages == pages.watermarks.min_pages
    assert pages.take_nowait() == -1  # free == min: refused
    assert pages.take(0, 0) >= 0


def test_frames_come_back_last_in_first_out() -> None:
    pages = PageAllocator(16)
    a, b, c = pages.take(0, 0), pages.take(0, 0), pages.take(0, 0)
    pages.give(a)
    pages.give(c)
    assert [pages.take(0, 0), pages.take(0, 0), pages.take(0, 0)] == [c, a, b + 2]


def test_a_larger_block_is_split_when_nothing_else_is_left() -> None:
    pages = PageAllocator(16)
    blocks = []
    while (frame := pages.take(3, 0)) >= 0:
        blocks.append(frame)
    while pages.take(0, 0) >= 0:
        pass
    pages.give(blocks[0], 3)
    assert [pages.take(0, 0) for _ in range(8)] == [blocks[0] + i for i in (0, 1, 2, 3, 4, 5, 6, 7)]
    assert pages.take(0, 0) == -1


def test_base_pages_are_given_out_for_good() -> None:
    pages = PageAllocator(16)
    pages.take_base(1000)
    assert (pages.given_pages, pages.free_pages, pages.take(0, 0)) == (1000, 3096, 0)
    with pytest.raises(ValueError, match="more than are left"):
        pages.take_base(4000)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=200), st.integers(0, 300))
def test_no_page_is_given_twice_and_none_is_lost(
    requests: list[tuple[int, bool]], mark: int
) -> None:
    pages = PageAllocator(16)
    out: list[tuple[int, int]] = []
    for order, take in requests:
        if take or not out:
            frame = pages.take(order, mark)
            if frame >= 0:
                out.append((frame, order))
        else:
            frame, size = out.pop(order % len(out))
            pages.give(frame, size)
        frames = [frame + i for frame, order in out for i in range(1 << order)]
        assert len(frames) == len(dict.fromkeys(frames)) == pages.given_pages
        assert pages.free_pages + pages.given_pages == pages.total_pages
        assert all(0 <= frame < pages.total_pages for frame in frames)
