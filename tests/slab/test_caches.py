"""Which caches a world has."""

from __future__ import annotations

import pytest

from rcusim.slab import kmalloc
from rcusim.slab.caches import kmalloc_caches, with_created
from rcusim.slab.layout import LAYOUTS, CacheRequest


def names_and_managements(
    layout: str, sizes: tuple[int, ...], minimum: int = 32
) -> list[tuple[str, int]]:
    caches = kmalloc_caches(LAYOUTS[layout], minimum, 4, sizes)
    return [(cache.name, cache.management) for cache in caches]


def test_one_size_on_arm64_is_one_cache() -> None:
    assert names_and_managements("gen4_objfreelist", (24,), 128) == [("kmalloc-128", -1)]


def test_sizes_of_one_class_share_a_cache() -> None:
    assert names_and_managements("gen4_objfreelist", (65, 96, 70)) == [("kmalloc-96", -1)]


def test_boot_caches_come_first_and_then_ascending() -> None:
    found = names_and_managements("gen4_objfreelist", (500, 250, 190, 90, 128, 64, 32))
    # the order of the published slabinfo tables, which list the youngest first
    assert [name.removeprefix("kmalloc-") for name, _ in reversed(found)] == [
        "512", "256", "192", "96", "64", "128", "32",
    ]  # fmt: skip


def test_off_slab_management_brings_its_own_cache() -> None:
    # 48 + 8 * 4 bytes, 8 * 4 bytes, 8 bytes
    assert names_and_managements("gen1_struct_slab", (512,)) == [
        ("kmalloc-96", -1), ("kmalloc-512", 0),
    ]  # fmt: skip
    assert names_and_managements("gen2_page_overlay", (512,)) == [
        ("kmalloc-32", -1), ("kmalloc-512", 0),
    ]  # fmt: skip
    assert names_and_managements("gen3_byte_index", (512, 64)) == [
        ("kmalloc-32", -1), ("kmalloc-64", -1), ("kmalloc-512", 0),
    ]  # fmt: skip
    assert names_and_managements("gen4_objfreelist", (512,)) == [("kmalloc-512", -1)]


def test_managements_of_different_size() -> None:
    assert names_and_managements("gen1_struct_slab", (512, 4096, 128)) == [
        ("kmalloc-128", -1), ("kmalloc-64", -1), ("kmalloc-96", -1),
        ("kmalloc-512", 2), ("kmalloc-4096", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("minimum", kmalloc.MINIMUMS_BYTES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_classes_at_once(layout: str, minimum: int) -> None:
    sizes = kmalloc.classes(minimum)
    caches = kmalloc_caches(LAYOUTS[layout], minimum, 2, sizes)
    assert sorted(cache.class_bytes for cache in caches) == list(sizes)
    for cache in caches:
        assert cache.geometry.off_slab == (cache.management >= 0)
        if cache.management >= 0:
            holder = caches[cache.management]
            assert not holder.geometry.off_slab
            assert holder.class_bytes >= cache.geometry.management_bytes


def test_a_size_that_cannot_be_served_is_refused() -> None:
    with pytest.raises(ValueError, match="SLAB serves at most"):
        names_and_managements("gen4_objfreelist", (24, (4 << 20) + 1))


def test_created_caches_come_last_and_find_their_management() -> None:
    layout = LAYOUTS["gen1_struct_slab"]
    large, small = CacheRequest(size_bytes=1000), CacheRequest(size_bytes=168, early=True)
    # 1024 bytes: 4 of a page, 48 + 4 * 4 bytes of management
    with_64 = kmalloc_caches(layout, 32, 1, (512, 64))
    assert [(cache.name, cache.management) for cache in with_64] == [
        ("kmalloc-64", -1), ("kmalloc-96", -1), ("kmalloc-512", 1),
    ]  # fmt: skip
    caches = with_created(layout, with_64, {"inode": large, "kmem_cache": small})
    assert [(cache.name, cache.management) for cache in caches[3:]] == [
        ("inode", 0), ("kmem_cache", -1),
    ]  # fmt: skip
    assert caches[4].geometry.object_bytes == 192


def test_created_caches_that_cannot_be_are_refused() -> None:
    layout = LAYOUTS["gen1_struct_slab"]
    kmalloced = kmalloc_caches(layout, 32, 1, (512,))
    with pytest.raises(ValueError, match="there is a cache kmalloc-512 already"):
        with_created(layout, kmalloced, {"kmalloc-512": CacheRequest(size_bytes=8)})
    with pytest.raises(ValueError, match="the management of inode needs kmalloc-64, which is not"):
        with_created(layout, kmalloced, {"inode": CacheRequest(size_bytes=1000)})
