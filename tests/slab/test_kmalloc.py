"""Size classes."""

from __future__ import annotations

import pytest

from rcusim.slab.kmalloc import (
    LARGEST_BYTES,
    alignment_bytes,
    cache_name,
    class_of,
    classes,
)


def test_the_classes_of_a_machine_without_dma_alignment() -> None:
    assert classes(32) == (32, 64, 96, 128, 192, *(2**power for power in range(8, 23)))


def test_arm64_has_neither_96_nor_192() -> None:
    assert classes(128) == tuple(2**power for power in range(7, 23))


@pytest.mark.parametrize("minimum", [0, 8, 64, 256])
def test_other_minimums_are_refused(minimum: int) -> None:
    with pytest.raises(ValueError, match=f"class {minimum}: must be one of"):
        classes(minimum)


@pytest.mark.parametrize("minimum", [32, 128])
def test_every_request_gets_the_smallest_class_that_holds_it(minimum: int) -> None:
    for size in range(1, 20_000):
        assert class_of(size, minimum) == min(c for c in classes(minimum) if c >= size)


@pytest.mark.parametrize("minimum", [32, 128])
def test_the_largest_class_is_4_mib(minimum: int) -> None:
    assert LARGEST_BYTES == 4 << 20
    assert class_of(LARGEST_BYTES, minimum) == LARGEST_BYTES
    with pytest.raises(ValueError, match="SLAB serves at most 4194304"):
        class_of(LARGEST_BYTES + 1, minimum)


@pytest.mark.parametrize("size", [0, -1])
def test_nothing_is_no_request(size: int) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        class_of(size, 32)


def test_alignment() -> None:
    assert {size: alignment_bytes(size, 32) for size in classes(32)[:6]} == {
        32: 32, 64: 64, 96: 64, 128: 64, 192: 64, 256: 64,
    }  # fmt: skip
    assert {alignment_bytes(size, 128) for size in classes(128)} == {128}


def test_names() -> None:
    assert [cache_name(size) for size in (96, 1024)] == ["kmalloc-96", "kmalloc-1024"]
