"""Geometry of the four generations against published slabinfo tables and values worked out by hand."""

from __future__ import annotations

import pytest

from rcusim.slab import kmalloc
from rcusim.slab.layout import (
    LAYOUTS,
    CacheGeometry,
    CacheRequest,
    SlabLayout,
    array_limit,
    geometry,
    is_early,
    kmalloc_request,
    management_class,
)

GEN1, GEN2, GEN3, GEN4 = LAYOUTS.values()

# cache: objsize, then objperslab of gens 1, 2, 3 (Joonsoo Kim, 2013: 24 distinct rows in all)
PUBLISHED = {
    "kmalloc-32": (32, 112, 113, 124),
    "kmalloc-64": (64, 59, 60, 63),
    "kmalloc-96": (128, 30, 31, 31),
    "kmalloc-128": (128, 30, 31, 31),
    "kmalloc-192": (192, 20, 20, 21),
    "kmalloc-256": (256, 15, 15, 16),
    "kmalloc-512": (512, 8, 8, 8),
    "kmem_cache": (192, 20, 20, 21),
}

# management off-slab, management bytes, left-over bytes: of gens 1, 2, 3
WORKED_OUT = {
    "kmalloc-32": ((False, 512, 0), (False, 480, 0), (False, 128, 0)),
    "kmalloc-64": ((False, 320, 0), (False, 256, 0), (False, 64, 0)),
    "kmalloc-96": ((False, 192, 64), (False, 128, 0), (False, 64, 64)),
    "kmalloc-128": ((False, 192, 64), (False, 128, 0), (False, 64, 64)),
    "kmalloc-192": ((False, 128, 128), (False, 128, 128), (False, 64, 0)),
    "kmalloc-256": ((False, 128, 128), (False, 64, 192), (True, 16, 0)),
    "kmalloc-512": ((True, 80, 0), (True, 32, 0), (True, 8, 0)),
    "kmem_cache": ((False, 128, 128), (False, 128, 128), (False, 64, 0)),
}

# class: pages and off-slab object of a slab, in bytes for 100 objects, of gens 1, 2, 3
BYTES_OF_100 = {
    32: (3657, 3625, 3303),
    64: (6942, 6827, 6502),
    96: (13653, 13213, 13213),
    128: (13653, 13213, 13213),
    192: (20480, 20480, 19505),
    256: (27307, 27307, 25800),
    512: (52800, 51600, 51600),
    1024: (104000, 103200, 103200),
    2048: (208000, 206400, 206400),
    4096: (416000, 412800, 412800),
    8192: (825600, 822400, 822400),
}


def request_of(name: str, cpus: int = 1) -> CacheRequest:
    if name == "kmem_cache":
        return CacheRequest(size_bytes=168, early=True, cpus=cpus)
    return kmalloc_request(int(name.removeprefix("kmalloc-")), 32, cpus)


def of_class(
    layout: str, class_bytes: int, minimum_bytes: int = 32, cpus: int = 1
) -> CacheGeometry:
    return geometry(LAYOUTS[layout], kmalloc_request(class_bytes, minimum_bytes, cpus))


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("generation", [1, 2, 3])
def test_the_published_slabinfo_rows(name: str, generation: int) -> None:
    layout = (GEN1, GEN2, GEN3)[generation - 1]
    found = geometry(layout, request_of(name))
    limit = 54 if name == "kmalloc-512" else 120
    assert found.object_bytes == PUBLISHED[name][0]
    assert found.objects_per_slab == PUBLISHED[name][generation]
    assert found.order == 0
    assert (found.limit, found.batchcount, found.shared_factor) == (limit, limit // 2, 0)
    place = (found.off_slab, found.management_bytes, found.left_over_bytes)
    assert place == WORKED_OUT[name][generation - 1]


def test_a_kmem_cache_of_129_to_192_bytes_is_the_same() -> None:
    for size in range(129, 193):
        found = geometry(GEN3, CacheRequest(size_bytes=size, early=True))
        assert (found.object_bytes, found.objects_per_slab) == (192, 21)


@pytest.mark.parametrize("class_bytes", BYTES_OF_100)
def test_memory_per_object(class_bytes: int) -> None:
    found = []
    for layout in (GEN1, GEN2, GEN3):
        shape = geometry(layout, kmalloc_request(class_bytes, 32, 1))
        slab_bytes = shape.slab_bytes
        if shape.off_slab:
            holder = management_class(layout, shape.objects_per_slab, 32)
            slab_bytes += layout.object_bytes(kmalloc_request(holder, 32, 1))
        found.append((slab_bytes * 100 + shape.objects_per_slab // 2) // shape.objects_per_slab)
    assert tuple(found) == BYTES_OF_100[class_bytes]


def test_gen_4_keeps_the_freelist_in_a_free_object_where_it_fits() -> None:
    sizes = (32, 64, 96, 128, 192, 256, 512)
    shapes = [of_class("gen4_objfreelist", size) for size in sizes]
    assert [shape.objects_per_slab for shape in shapes] == [124, 64, 32, 32, 21, 16, 8]
    assert [shape.objfreelist for shape in shapes] == [False, True, True, True, True, True, True]
    assert not any(shape.off_slab for shape in shapes)
    assert (shapes[0].management_bytes, shapes[0].left_over_bytes) == (124, 4)


def test_gen_4_puts_a_freelist_off_slab_where_free_objects_must_stay_as_they_are() -> None:
    shape = geometry(GEN4, CacheRequest(size_bytes=1024, keeps_contents=True))
    assert (shape.objects_per_slab, shape.off_slab, shape.objfreelist) == (4, True, False)
    assert (shape.management_bytes, shape.left_over_bytes) == (4, 0)
    # 5 objects of 768 bytes leave room for 5 indices
    roomy = geometry(GEN4, CacheRequest(size_bytes=768, keeps_contents=True))
    assert (roomy.objects_per_slab, roomy.off_slab, roomy.left_over_bytes) == (5, False, 251)


def test_gen_4_does_not_go_off_slab_for_less_than_half_an_object() -> None:
    # 64 indices would take a kmalloc-64, as large as the object
    small = geometry(GEN4, CacheRequest(size_bytes=64, keeps_contents=True))
    assert (small.objects_per_slab, small.off_slab) == (63, False)
    # 32 indices in a kmalloc-32, or in a kmalloc-128 where that is the smallest
    middle = CacheRequest(size_bytes=128, keeps_contents=True)
    assert geometry(GEN4, middle).off_slab
    arm64 = CacheRequest(size_bytes=128, keeps_contents=True, align_bytes=128, minimum_bytes=128)
    assert not geometry(GEN4, arm64).off_slab


def test_a_freelist_larger_than_a_request_is_not_put_into_an_object() -> None:
    shape = geometry(GEN4, CacheRequest(size_bytes=24, align_bytes=128))
    assert (shape.objects_per_slab, shape.off_slab, shape.objfreelist) == (31, False, False)


@pytest.mark.parametrize(
    ("size", "limit", "batchcount"),
    [
        (32, 120, 60), (256, 120, 60), (512, 54, 27), (1024, 54, 27), (2048, 24, 12),
        (4096, 24, 12), (8192, 8, 4), (131072, 8, 4), (262144, 1, 1), (4 << 20, 1, 1),
    ],
)  # fmt: skip
def test_limits_of_arrays(size: int, limit: int, batchcount: int) -> None:
    found = of_class("gen2_page_overlay", size)
    assert array_limit(size) == found.limit == limit
    assert found.batchcount == batchcount


@pytest.mark.parametrize(
    ("cpus", "size", "shared"),
    [(1, 128, 0), (2, 128, 480), (2, 1024, 216), (8, 4096, 96), (8, 8192, 0)],
)
def test_shared_arrays_need_a_second_cpu_and_objects_within_a_page(
    cpus: int, size: int, shared: int
) -> None:
    assert of_class("gen4_objfreelist", size, cpus=cpus).shared_limit == shared


def test_free_limit() -> None:
    assert of_class("gen3_byte_index", 32, cpus=4).free_limit_objects == 5 * 60 + 124
    assert of_class("gen4_objfreelist", 128, minimum_bytes=128, cpus=8).free_limit_objects == 572


def test_colours_are_what_is_left_in_steps_of_a_cache_line_or_the_alignment() -> None:
    assert of_class("gen1_struct_slab", 192).colours == 2
    assert of_class("gen2_page_overlay", 256).colours == 3
    assert geometry(GEN2, CacheRequest(size_bytes=384, align_bytes=128)).colours == 1
    assert of_class("gen4_objfreelist", 32).colours == 0


def test_large_objects_take_the_order_they_need() -> None:
    for layout in LAYOUTS.values():
        shapes = {c: geometry(layout, kmalloc_request(c, 32, 1)) for c in kmalloc.classes(32)}
        assert all(shape.order == 0 for size, shape in shapes.items() if size <= 4096)
        assert [shapes[size].order for size in (8192, 16384, 4 << 20)] == [1, 2, 10]
        assert {shapes[size].objects_per_slab for size in shapes if size >= 4096} == {1}


def test_a_second_page_is_taken_to_waste_less_than_an_eighth() -> None:
    # 2 of 1600 bytes leave 896 of a page, 5 leave 192 of two
    request = CacheRequest(size_bytes=1600)
    assert (geometry(GEN2, request).order, geometry(GEN2, request).objects_per_slab) == (1, 5)
    small = CacheRequest(size_bytes=1600, large_memory=False)
    assert (geometry(GEN2, small).order, geometry(GEN2, small).objects_per_slab) == (0, 2)


def test_boot_caches_keep_their_management() -> None:
    assert [size for size in kmalloc.classes(32) if is_early(size, 32)] == [32, 128]
    assert [size for size in kmalloc.classes(128) if is_early(size, 128)] == [128]
    ordinary = CacheRequest(size_bytes=128, cpus=1)
    assert geometry(GEN3, ordinary).off_slab
    assert geometry(GEN3, ordinary).objects_per_slab == 32
    assert not of_class("gen3_byte_index", 128).off_slab


def test_on_arm64_kmalloc_128_never_needs_itself() -> None:
    late = CacheRequest(size_bytes=128, align_bytes=128, minimum_bytes=128)
    assert not geometry(GEN3, late).off_slab
    assert geometry(GEN3, CacheRequest(size_bytes=129, align_bytes=128, minimum_bytes=128)).off_slab
    shape = of_class("gen3_byte_index", 256, minimum_bytes=128)
    assert (shape.objects_per_slab, shape.off_slab) == (16, True)
    assert management_class(GEN3, 16, 128) == 128
    assert of_class("gen4_objfreelist", 128, minimum_bytes=128).objects_per_slab == 32
    assert of_class("gen1_struct_slab", 128, minimum_bytes=128).objects_per_slab == 30


def test_an_index_of_a_byte_names_no_more_than_255_objects() -> None:
    shape = geometry(GEN3, CacheRequest(size_bytes=16, align_bytes=16))
    assert shape.objects_per_slab == 240


def test_smaller_objects_are_padded_where_an_index_is_a_byte() -> None:
    tiny = CacheRequest(size_bytes=3, align_bytes=8)
    found = [
        (geometry(layout, tiny).object_bytes, geometry(layout, tiny).objects_per_slab)
        for layout in LAYOUTS.values()
    ]
    assert found == [(8, 337), (8, 341), (16, 240), (16, 240)]


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_an_object_above_the_largest_slab_is_refused(layout: SlabLayout) -> None:
    with pytest.raises(ValueError, match=f"no slab of {layout.name} holds an object of 4194368"):
        geometry(layout, CacheRequest(size_bytes=(4 << 20) + 1))


@pytest.mark.parametrize("minimum", kmalloc.MINIMUMS_BYTES)
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_every_slab_holds_what_it_is_said_to(layout: SlabLayout, minimum: int) -> None:
    for class_bytes in kmalloc.classes(minimum):
        shape = geometry(layout, kmalloc_request(class_bytes, minimum, 4))
        inside = 0 if shape.off_slab or shape.objfreelist else shape.management_bytes
        used = shape.objects_per_slab * shape.object_bytes + inside
        assert used + shape.left_over_bytes == shape.slab_bytes
        assert shape.object_bytes >= class_bytes
        if shape.off_slab:
            holder = management_class(layout, shape.objects_per_slab, minimum)
            assert not geometry(layout, kmalloc_request(holder, minimum, 4)).off_slab
