"""How SLUB lays out a cache and how much of it CPUs and nodes keep: pure geometry, no state.

Models ``calculate_order``, ``set_min_partial``, ``set_cpu_partial`` and ``find_mergeable`` of two
releases: 3.18 (the order algorithm up to 6.2, cpu partial lists limited by objects) and 6.18 (the
algorithm without the loop over objects, lists limited by slabs). Leaves out: debugging and what it
adds to an object, ``slub_min_objects`` and ``slub_min_order`` other than 0, CONFIG_SLUB_TINY, caches
without cpu partial lists, and pages other than 4 KiB.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rcusim.units import PAGE_SIZE_BYTES, POINTER_BYTES

RULES = ("slub-3.18", "slub-6.18")
"""The releases that are modelled."""

MINIMUMS_BYTES = (8, 32, 128)
"""Smallest kmalloc class: 8 in general, more where DMA needs such alignment (128: arm64 up to 6.4)."""

LARGEST_BYTES = 2 * PAGE_SIZE_BYTES
"""``KMALLOC_MAX_CACHE_SIZE``: what is larger comes straight from the page allocator."""

MAX_ORDER = 10
"""Largest order of the page allocator."""

SLUB_MAX_ORDER = 3
"""``slub_max_order``: orders above it are used only where no smaller one holds an object."""

MIN_PARTIAL, MAX_PARTIAL = 5, 10
"""Bounds of ``min_partial``."""


def classes(minimum_bytes: int) -> tuple[int, ...]:
    """Return the sizes of all kmalloc caches, ascending.

    Raises
    ------
    ValueError
        For another minimum than those of :data:`MINIMUMS_BYTES`.

    Examples
    --------
    >>> classes(8)
    (8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192)
    >>> classes(128)
    (128, 256, 512, 1024, 2048, 4096, 8192)
    """
    if minimum_bytes not in MINIMUMS_BYTES:
        raise ValueError(f"smallest kmalloc class {minimum_bytes}: must be one of {MINIMUMS_BYTES}")
    sizes = [minimum_bytes]
    while sizes[-1] < LARGEST_BYTES:
        sizes.append(2 * sizes[-1])
    if minimum_bytes <= 32:
        sizes.append(96)
    if minimum_bytes <= 64:
        sizes.append(192)
    return tuple(sorted(sizes))


def class_of(size_bytes: int, minimum_bytes: int) -> int:
    """Return what a request occupies: its class, or whole pages above the largest one.

    Raises
    ------
    ValueError
        When the request is not positive (0 gives no memory but a poison pointer) or above what the
        page allocator has in one piece.

    Examples
    --------
    >>> [class_of(size, 8) for size in (1, 24, 65, 8192, 8193, 16384, 16385)]
    [8, 32, 96, 8192, 16384, 16384, 32768]
    """
    if size_bytes < 1:
        raise ValueError(f"request of {size_bytes} bytes: must be at least 1")
    for class_bytes in classes(minimum_bytes):
        if size_bytes <= class_bytes:
            return class_bytes
    order = get_order(size_bytes)
    if order > MAX_ORDER:
        largest_bytes = PAGE_SIZE_BYTES << MAX_ORDER
        raise ValueError(f"request of {size_bytes} bytes: SLUB serves at most {largest_bytes}")
    return PAGE_SIZE_BYTES << order


def get_order(size_bytes: int) -> int:
    """Return the smallest order whose pages hold `size_bytes` (``get_order``).

    Examples
    --------
    >>> [get_order(size) for size in (1, 4096, 4097, 8193)]
    [0, 0, 1, 2]
    """
    return (-(-size_bytes // PAGE_SIZE_BYTES) - 1).bit_length()


def wanted_objects(cpus: int) -> int:
    """Return how many objects a slab should hold at least, on a machine of so many CPUs.

    Examples
    --------
    >>> [wanted_objects(cpus) for cpus in (1, 2, 4, 8, 16, 64)]
    [8, 12, 16, 20, 24, 32]
    """
    return 4 * (cpus.bit_length() + 1)


def _fitting_order(size_bytes: int, objects: int, first: int, last: int, fraction: int) -> int:
    """Return the smallest order that holds `objects` and wastes little; above `last`: none does."""
    for order in range(first, last + 1):
        slab_bytes = PAGE_SIZE_BYTES << order
        if slab_bytes >= objects * size_bytes and slab_bytes % size_bytes <= slab_bytes // fraction:
            return order
    return last + 1


def order_3_18(size_bytes: int, cpus: int) -> int:
    """Return the order of slabs of a size (``calculate_order``, 3.18 to 6.2).

    Parameters
    ----------
    size_bytes : int
        Bytes of an object in the slab.
    cpus : int
        ``nr_cpu_ids``.

    Raises
    ------
    ValueError
        When no slab holds an object.
    """
    objects = min(wanted_objects(cpus), (PAGE_SIZE_BYTES << SLUB_MAX_ORDER) // size_bytes)
    while objects > 1:
        first = get_order(objects * size_bytes)
        for fraction in (16, 8, 4):
            order = _fitting_order(size_bytes, objects, first, SLUB_MAX_ORDER, fraction)
            if order <= SLUB_MAX_ORDER:
                return order
        objects -= 1
    return _single_order(size_bytes)


def order_6_18(size_bytes: int, cpus: int) -> int:
    """Return the order of slabs of a size (``calculate_order``, 6.18).

    Parameters
    ----------
    size_bytes : int
        Bytes of an object in the slab.
    cpus : int
        CPUs present.

    Raises
    ------
    ValueError
        When no slab holds an object.
    """
    most = max(1, (PAGE_SIZE_BYTES << SLUB_MAX_ORDER) // size_bytes)
    first = get_order(min(wanted_objects(cpus), most) * size_bytes)
    for fraction in (16, 8, 4, 2):
        order = _fitting_order(size_bytes, 1, first, SLUB_MAX_ORDER, fraction)
        if order <= SLUB_MAX_ORDER:
            return order
    return _single_order(size_bytes)


def _single_order(size_bytes: int) -> int:
    order = get_order(size_bytes)
    if order > MAX_ORDER:
        raise ValueError(f"no slab holds an object of {size_bytes} bytes")
    return order


def min_partial(size_bytes: int) -> int:
    """Return how many slabs a node keeps though they are empty (``set_min_partial``).

    Examples
    --------
    >>> [min_partial(size) for size in (8, 4095, 4096, 16383, 16384)]
    [5, 5, 6, 6, 7]
    """
    return max(MIN_PARTIAL, min(MAX_PARTIAL, (size_bytes.bit_length() - 1) // 2))


def cpu_partial_objects(rules: str, size_bytes: int) -> int:
    """Return the free objects that a CPU's partial list is meant to hold (``set_cpu_partial``).

    Examples
    --------
    >>> [cpu_partial_objects("slub-3.18", size) for size in (255, 256, 1024, 4096)]
    [30, 13, 6, 2]
    >>> [cpu_partial_objects("slub-6.18", size) for size in (255, 256, 1024, 4096)]
    [120, 52, 24, 6]
    """
    large, middle, small, tiny = (2, 6, 13, 30) if rules == "slub-3.18" else (6, 24, 52, 120)
    if size_bytes >= PAGE_SIZE_BYTES:
        return large
    if size_bytes >= 1024:
        return middle
    return small if size_bytes >= 256 else tiny


@attrs.frozen(kw_only=True)
class SlubGeometry:
    """How the objects of a cache lie in its slabs, and how many are kept where.

    Attributes
    ----------
    object_bytes : int
        What one object occupies (``objsize`` of slabinfo).
    order, objects_per_slab : int
        A slab has ``2**order`` pages and holds so many objects.
    min_order, min_objects : int
        The same of the smallest slab that holds an object: what is taken when `order` is refused.
    min_partial : int
        Slabs that a node keeps though they are empty.
    cpu_partial : int
        Free objects that a CPU's partial list is meant to hold.
    cpu_partial_limit : int
        What the list is held to: these objects (3.18), or slabs made of them (6.18).
    """

    object_bytes: int
    order: int
    objects_per_slab: int
    min_order: int
    min_objects: int
    min_partial: int
    cpu_partial: int
    cpu_partial_limit: int


def geometry(rules: str, object_bytes: int, cpus: int) -> SlubGeometry:
    """Lay out a cache.

    Parameters
    ----------
    rules : str
        One of :data:`RULES`.
    object_bytes : int
        Bytes of an object in the slab, after alignment.
    cpus : int
        CPUs, all possible and present.

    Raises
    ------
    ValueError
        For other rules, or when no slab holds an object.
    """
    if rules not in RULES:
        raise ValueError(f"rules {rules!r}: must be one of {', '.join(RULES)}")
    order = (order_3_18 if rules == "slub-3.18" else order_6_18)(object_bytes, cpus)
    objects = (PAGE_SIZE_BYTES << order) // object_bytes
    min_order = get_order(object_bytes)
    partial = cpu_partial_objects(rules, object_bytes)
    return SlubGeometry(
        object_bytes=object_bytes,
        order=order,
        objects_per_slab=objects,
        min_order=min_order,
        min_objects=(PAGE_SIZE_BYTES << min_order) // object_bytes,
        min_partial=min_partial(object_bytes),
        cpu_partial=partial,
        # since 5.16: as if every slab on the list were half full
        cpu_partial_limit=partial if rules == "slub-3.18" else -(-2 * partial // objects),
    )


@attrs.frozen(kw_only=True)
class MergeTraits:
    """What decides whether caches may share slabs.

    Attributes
    ----------
    size_bytes : int
        What ``kmem_cache_create`` is asked for; of an existing cache, what an object occupies.
    align_bytes : int
        Alignment, after the rules of the architecture and the hardware-cacheline flag.
    keep_apart : bool
        A flag that forbids merging is set: red zone, poison, user tracking, tracing, RCU-typesafe,
        no-leak-trace, failslab, KASAN.
    constructor : bool
        Has a constructor.
    usersize_bytes : int
        Window for copies to and from user space; 0: none.
    sheaf_capacity : int
        Objects of a sheaf; 0: has no sheaves (6.18).
    same : frozenset of str
        Flags that must be equal: ``reclaim_account``, ``dma``, ``dma32``, ``account``.
    """

    size_bytes: int
    align_bytes: int = POINTER_BYTES
    keep_apart: bool = False
    constructor: bool = False
    usersize_bytes: int = 0
    sheaf_capacity: int = 0
    same: frozenset[str] = frozenset()

    @property
    def mergeable(self) -> bool:
        """Whether it may be merged with anything."""
        return not (
            self.keep_apart or self.constructor or self.usersize_bytes or self.sheaf_capacity
        )


def may_merge(new: MergeTraits, existing: MergeTraits, *, classic: bool = False) -> bool:
    """Return whether a new cache is folded into an existing one (``find_mergeable``).

    Parameters
    ----------
    new, existing : MergeTraits
        The caches.
    classic : bool
        Under SLAB (3.18 and later), which also compares alignments.

    Examples
    --------
    >>> may_merge(MergeTraits(size_bytes=121), MergeTraits(size_bytes=128))
    True
    >>> may_merge(MergeTraits(size_bytes=120), MergeTraits(size_bytes=128))
    False
    """
    if not (new.mergeable and existing.mergeable) or new.same != existing.same:
        return False
    align_bytes = new.align_bytes
    size_bytes = -(-new.size_bytes // POINTER_BYTES) * POINTER_BYTES
    size_bytes = -(-size_bytes // align_bytes) * align_bytes
    if classic and (align_bytes > existing.align_bytes or existing.align_bytes % align_bytes != 0):
        return False
    return (
        0 <= existing.size_bytes - size_bytes < POINTER_BYTES
        and existing.size_bytes % align_bytes == 0
    )


def merge_target(
    new: MergeTraits,
    existing: Sequence[MergeTraits],
    *,
    newest_first: bool = True,
    classic: bool = False,
) -> int | None:
    """Return the position of the cache that a new one is folded into; None: it stays alone.

    Parameters
    ----------
    new : MergeTraits
        The new cache.
    existing : sequence of MergeTraits
        Caches in the order of their creation.
    newest_first : bool
        In which order they are tried: the newest first in 3.18, the oldest first in 5.4.
    classic : bool
        See :func:`may_merge`.
    """
    positions = range(len(existing))
    for position in reversed(positions) if newest_first else positions:
        if may_merge(new, existing[position], classic=classic):
            return position
    return None
