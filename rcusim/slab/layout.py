"""Where SLAB keeps the management of a slab, and what follows: pure geometry, no state.

Models ``__kmem_cache_create``, ``calculate_slab_order``, ``cache_estimate`` and
``enable_cpucache`` of four generations: `gen1_struct_slab` (up to 3.12: a descriptor and links of
four bytes), `gen2_page_overlay` (3.13, 3.14: the descriptor lies in ``struct page``),
`gen3_byte_index` (3.15 to 4.5: indices of one byte, management off-slab from 1/32 page on) and
`gen4_objfreelist` (4.6 to 6.0, as read in 5.4: the freelist lives in a free object if it fits).
Leaves out: debugging (red zones, CONFIG_DEBUG_SLAB, CONFIG_DEBUG_SLAB_LEAK),
CONFIG_SLAB_FREELIST_RANDOM, constructors, reclaim-accounted and RCU-typesafe caches, cache merging,
alien arrays (one node), and pages other than 4 KiB.
"""

from __future__ import annotations

import attrs

from rcusim.slab import kmalloc
from rcusim.units import PAGE_SIZE_BYTES, POINTER_BYTES

BOOT_ARRAY_BYTES = 32
"""Size of the array_cache that boots the allocator (``struct arraycache_init``)."""

NODE_BYTES = 104
"""Size of ``struct kmem_cache_node`` on SMP."""

MAX_ORDER = 10
"""Largest order a slab can have (``KMALLOC_MAX_ORDER``)."""

BATCH_REFILL_LIMIT_OBJECTS = 16
"""``BATCHREFILL_LIMIT``: most objects of a refill of an array that was idle since the last reap."""


@attrs.frozen(kw_only=True)
class SlabLayout:
    """One generation of SLAB.

    Attributes
    ----------
    name : str
        As scenarios call it.
    descriptor_bytes : int
        What a slab needs besides its indices.
    index_bytes : int
        Size of an element of the freelist.
    off_slab_bytes : int
        Objects from this size on have their management off-slab; 0: decided by trial (gen 4).
    objects_max : int
        Most objects of a slab that the index can name.
    object_bytes_min : int
        Smaller objects are padded to this (``SLAB_OBJ_MIN_SIZE``), for indices of a byte to do.
    linked : bool
        Whether free objects form a linked list inside the index array; otherwise it is a stack.
    late_rules : bool
        Whether allocating and freeing follow 5.4 instead of 3.12: the array is filled straight from
        a new slab, the list lock is not taken when nothing is there, surplus slabs are destroyed
        after the lock was dropped.
    """

    name: str
    descriptor_bytes: int
    index_bytes: int
    off_slab_bytes: int
    objects_max: int
    object_bytes_min: int
    linked: bool
    late_rules: bool

    def management_bytes(self, objects: int) -> int:
        """Return the size of descriptor and indices of a slab of `objects`."""
        return self.descriptor_bytes + objects * self.index_bytes

    def object_bytes(self, request: CacheRequest) -> int:
        """Return what an object of a cache occupies, after alignment."""
        return _aligned(max(request.word_bytes, self.object_bytes_min), request.align_bytes)


_UNLIMITED = 1 << 30

_EVERY = (
    SlabLayout(
        name="gen1_struct_slab",
        descriptor_bytes=48,
        index_bytes=4,
        off_slab_bytes=PAGE_SIZE_BYTES // 8,
        objects_max=_UNLIMITED,
        object_bytes_min=1,
        linked=True,
        late_rules=False,
    ),
    SlabLayout(
        name="gen2_page_overlay",
        descriptor_bytes=0,
        index_bytes=4,
        off_slab_bytes=PAGE_SIZE_BYTES // 8,
        objects_max=_UNLIMITED,
        object_bytes_min=1,
        linked=False,
        late_rules=False,
    ),
    SlabLayout(
        name="gen3_byte_index",
        descriptor_bytes=0,
        index_bytes=1,
        off_slab_bytes=PAGE_SIZE_BYTES // 32,
        objects_max=255,
        object_bytes_min=PAGE_SIZE_BYTES // 256,
        linked=False,
        late_rules=False,
    ),
    SlabLayout(
        name="gen4_objfreelist",
        descriptor_bytes=0,
        index_bytes=1,
        off_slab_bytes=0,
        objects_max=255,
        object_bytes_min=PAGE_SIZE_BYTES // 256,
        linked=False,
        late_rules=True,
    ),
)

LAYOUTS = {layout.name: layout for layout in _EVERY}
"""The four generations by name."""


@attrs.frozen(kw_only=True)
class CacheGeometry:
    """How the objects of a cache lie in its slabs, and how many are kept where.

    Attributes
    ----------
    object_bytes : int
        What one object occupies, after alignment (``objsize`` of slabinfo).
    order : int
        A slab has ``2**order`` pages.
    objects_per_slab : int
        Objects of a slab.
    management_bytes : int
        Descriptor and indices; on-slab in gens 1 to 3 rounded up to the alignment.
    off_slab : bool
        Whether these lie in an object of another kmalloc cache.
    objfreelist : bool
        Whether the freelist lies in a free object of the slab itself, using no space (gen 4).
    left_over_bytes : int
        What remains of a slab.
    colours : int
        How many offsets the start of objects can have.
    limit, batchcount : int
        Capacity of a CPU's array, and objects moved by a refill or flush.
    shared_factor : int
        The node's shared array holds this many batches; 0: there is none.
    free_limit_objects : int
        Free objects above which empty slabs are given back.
    """

    object_bytes: int
    order: int
    objects_per_slab: int
    management_bytes: int
    off_slab: bool
    objfreelist: bool
    left_over_bytes: int
    colours: int
    limit: int
    batchcount: int
    shared_factor: int
    free_limit_objects: int

    @property
    def slab_bytes(self) -> int:
        """Size of a slab."""
        return PAGE_SIZE_BYTES << self.order

    @property
    def shared_limit(self) -> int:
        """Capacity of the shared array."""
        return self.shared_factor * self.batchcount


@attrs.frozen(kw_only=True)
class CacheRequest:
    """What is asked of ``kmem_cache_create``, and of which machine.

    Attributes
    ----------
    size_bytes : int
        Size of an object before alignment.
    align_bytes : int
        Alignment of objects.
    early : bool
        Whether the cache is made before ``slab_early_init`` clears: its management stays on-slab.
    keeps_contents : bool
        Whether free objects stay as they are, for a constructor or SLAB_TYPESAFE_BY_RCU: no place
        for a freelist (gen 4). kmalloc caches do not ask for that.
    minimum_bytes : int
        ``KMALLOC_MIN_SIZE``.
    cpus : int
        Possible CPUs, all online and of one node.
    large_memory : bool
        Whether the machine has more than 32 MiB: slabs may then have two pages to waste less.
    """

    size_bytes: int
    align_bytes: int = kmalloc.CACHE_LINE_BYTES
    early: bool = False
    keeps_contents: bool = False
    minimum_bytes: int = 32
    cpus: int = 1
    large_memory: bool = True

    @property
    def word_bytes(self) -> int:
        """Size rounded up to words: what the off-slab threshold is compared with."""
        return _aligned(self.size_bytes, POINTER_BYTES)

    @property
    def max_order(self) -> int:
        """``slab_max_order``."""
        return 1 if self.large_memory else 0


@attrs.frozen
class _Fit:
    """A slab that was found to hold objects."""

    order: int
    objects: int
    left_bytes: int


def is_early(class_bytes: int, minimum_bytes: int) -> bool:
    """Return whether a kmalloc cache is created while ``slab_early_init`` is set.

    The boot array_cache and the per-node structure need their caches before all others; where the
    smallest class is 128 bytes both are the same cache.

    Examples
    --------
    >>> [size for size in kmalloc.classes(32) if is_early(size, 32)]
    [32, 128]
    >>> [size for size in kmalloc.classes(128) if is_early(size, 128)]
    [128]
    """
    return class_bytes in {
        kmalloc.class_of(BOOT_ARRAY_BYTES, minimum_bytes),
        kmalloc.class_of(NODE_BYTES, minimum_bytes),
    }


def kmalloc_request(
    class_bytes: int, minimum_bytes: int, cpus: int, *, large_memory: bool = True
) -> CacheRequest:
    """Return the request with which SLAB creates a kmalloc cache."""
    return CacheRequest(
        size_bytes=class_bytes,
        align_bytes=kmalloc.alignment_bytes(class_bytes, minimum_bytes),
        early=is_early(class_bytes, minimum_bytes),
        minimum_bytes=minimum_bytes,
        cpus=cpus,
        large_memory=large_memory,
    )


def array_limit(object_bytes: int) -> int:
    """Return the default capacity of a CPU's array (``enable_cpucache``, 3.12 to 6.3).

    Examples
    --------
    >>> [array_limit(size) for size in (256, 257, 1024, 1025, 4096, 4097, 131072, 131073)]
    [120, 54, 54, 24, 24, 8, 8, 1]
    """
    if object_bytes > 131072:
        return 1
    if object_bytes > PAGE_SIZE_BYTES:
        return 8
    if object_bytes > 1024:
        return 24
    return 54 if object_bytes > 256 else 120


def management_class(layout: SlabLayout, objects: int, minimum_bytes: int) -> int:
    """Return the kmalloc class that holds the off-slab management of a slab of `objects`."""
    return kmalloc.class_of(layout.management_bytes(objects), minimum_bytes)


def geometry(layout: SlabLayout, request: CacheRequest) -> CacheGeometry:
    """Lay out a cache.

    Raises
    ------
    ValueError
        When no slab can hold an object.
    """
    choose = _by_trial if layout.off_slab_bytes == 0 else _by_threshold
    fit, management_bytes, off_slab, objfreelist = choose(layout, request)
    object_bytes = layout.object_bytes(request)
    limit = array_limit(object_bytes)
    batchcount = (limit + 1) // 2
    shared = request.cpus > 1 and object_bytes <= PAGE_SIZE_BYTES
    return CacheGeometry(
        object_bytes=object_bytes,
        order=fit.order,
        objects_per_slab=fit.objects,
        management_bytes=management_bytes,
        off_slab=off_slab,
        objfreelist=objfreelist,
        left_over_bytes=fit.left_bytes,
        colours=fit.left_bytes // max(kmalloc.CACHE_LINE_BYTES, request.align_bytes),
        limit=limit,
        batchcount=batchcount,
        shared_factor=8 if shared else 0,
        free_limit_objects=(1 + request.cpus) * batchcount + fit.objects,
    )


def _by_threshold(layout: SlabLayout, request: CacheRequest) -> tuple[_Fit, int, bool, bool]:
    """Decide on-slab or off-slab by object size (gens 1 to 3; ``__kmem_cache_create``, 3.12)."""
    threshold_bytes = layout.off_slab_bytes
    if layout.name == "gen3_byte_index":
        # since 4.4; no kmalloc cache changes place by it, because kmalloc-128 is early anyway
        threshold_bytes = max(threshold_bytes, request.minimum_bytes + 1)
    off_slab = request.word_bytes >= threshold_bytes and not request.early
    fit = _order(layout, request, off_slab=off_slab)
    if fit is None:
        raise ValueError(
            f"no slab of {layout.name} holds an object of {layout.object_bytes(request)} bytes"
        )
    bare_bytes = layout.management_bytes(fit.objects)
    aligned_bytes = _aligned(bare_bytes, request.align_bytes)
    if off_slab and fit.left_bytes < aligned_bytes:
        return fit, bare_bytes, True, False
    if off_slab:
        # there is room after all: the management moves in, at the expense of colours
        fit = attrs.evolve(fit, left_bytes=fit.left_bytes - aligned_bytes)
    return fit, aligned_bytes, False, False


def _by_trial(layout: SlabLayout, request: CacheRequest) -> tuple[_Fit, int, bool, bool]:
    """Try freelist in a free object, off-slab, on-slab, in this order (gen 4, 5.4).

    The second can only succeed where the first is not allowed: a freelist worth an object of half
    the size also fits in one of the full size.
    """
    if not request.keeps_contents:
        fit = _order(layout, request, off_slab=True)
        if fit is not None and layout.management_bytes(fit.objects) <= request.size_bytes:
            return fit, layout.management_bytes(fit.objects), False, True
    fit = _order(layout, request, off_slab=True, worthwhile=True)
    if fit is not None and fit.left_bytes < layout.management_bytes(fit.objects):
        return fit, layout.management_bytes(fit.objects), True, False
    fit = _order(layout, request, off_slab=False)
    if fit is None:
        raise ValueError(
            f"no slab of {layout.name} holds an object of {layout.object_bytes(request)} bytes"
        )
    return fit, layout.management_bytes(fit.objects), False, False


def _order(
    layout: SlabLayout, request: CacheRequest, *, off_slab: bool, worthwhile: bool = False
) -> _Fit | None:
    """Return the slab that ``calculate_slab_order`` settles for.

    Its limit on the objects of an off-slab cache, which in gens 1 to 3 excludes that such a cache
    needs itself, is left out: it lies above any number that these thresholds allow.
    """
    found = None
    for order in range(MAX_ORDER + 1):
        fit = _estimate(layout, request, order, off_slab=off_slab)
        if fit.objects == 0:
            continue
        if fit.objects > layout.objects_max:
            break
        if worthwhile and not _worthwhile(layout, request, fit.objects):
            continue
        found = fit
        if order >= request.max_order or fit.left_bytes * 8 <= PAGE_SIZE_BYTES << order:
            break
    return found


def _estimate(layout: SlabLayout, request: CacheRequest, order: int, *, off_slab: bool) -> _Fit:
    """Return what a slab of an order holds (``cache_estimate``)."""
    slab_bytes = PAGE_SIZE_BYTES << order
    size_bytes = layout.object_bytes(request)
    if off_slab:
        return _Fit(order, slab_bytes // size_bytes, slab_bytes % size_bytes)
    objects = max(0, slab_bytes - layout.descriptor_bytes) // (size_bytes + layout.index_bytes)
    if layout.late_rules:  # the freelist is at the end: nothing to align
        return _Fit(order, objects, slab_bytes - objects * (size_bytes + layout.index_bytes))
    management_bytes = _aligned(layout.management_bytes(objects), request.align_bytes)
    if objects and management_bytes + objects * size_bytes > slab_bytes:
        objects -= 1
        management_bytes = _aligned(layout.management_bytes(objects), request.align_bytes)
    return _Fit(order, objects, max(0, slab_bytes - objects * size_bytes - management_bytes))


def _worthwhile(layout: SlabLayout, request: CacheRequest, objects: int) -> bool:
    """Return whether an off-slab freelist is allowed and gains enough (gen 4)."""
    holder = kmalloc_request(
        management_class(layout, objects, request.minimum_bytes),
        request.minimum_bytes,
        request.cpus,
        large_memory=request.large_memory,
    )
    holder_bytes = layout.object_bytes(holder)
    return holder_bytes <= request.size_bytes // 2 and not geometry(layout, holder).off_slab


def _aligned(size_bytes: int, align_bytes: int) -> int:
    return -(-size_bytes // align_bytes) * align_bytes
