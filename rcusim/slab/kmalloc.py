"""The kmalloc size classes of SLAB.

Models the table of ``mm/slab_common.c`` (3.9 to 6.0): powers of two up to 4 MiB, with 96 and 192 in
between where the smallest class leaves room for them, and the alignment that SLAB gives its kmalloc
caches. Names are always decimal (``kmalloc-1024``); newer kernels print ``kmalloc-1k``. Leaves out:
requests above the largest class (the page allocator serves them), the DMA and reclaimable twins,
and ``kmalloc-8`` and ``kmalloc-16``, which only SLUB has.
"""

from __future__ import annotations

from rcusim.units import PAGE_SIZE_BYTES

CACHE_LINE_BYTES = 64
MINIMUMS_BYTES = (32, 128)
"""Smallest class: 32 for SLAB in general, 128 where DMA needs such alignment (arm64 up to 6.4)."""

LARGEST_BYTES = PAGE_SIZE_BYTES << 10
"""``KMALLOC_MAX_CACHE_SIZE`` of SLAB with MAX_ORDER 11."""


def classes(minimum_bytes: int) -> tuple[int, ...]:
    """Return the sizes of all kmalloc classes, ascending.

    Parameters
    ----------
    minimum_bytes : {32, 128}
        ``KMALLOC_MIN_SIZE``.

    Raises
    ------
    ValueError
        For another minimum.

    Examples
    --------
    >>> classes(32)[:7]
    (32, 64, 96, 128, 192, 256, 512)
    >>> classes(128)[:3], classes(128)[-1]
    ((128, 256, 512), 4194304)
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
    """Return the class that serves a request (``kmalloc_slab``).

    Raises
    ------
    ValueError
        When the request is not positive (0 gives no memory but a poison pointer) or above the
        largest class.

    Examples
    --------
    >>> class_of(24, 32), class_of(24, 128), class_of(65, 32), class_of(129, 32), class_of(193, 32)
    (32, 128, 96, 192, 256)
    """
    if size_bytes < 1:
        raise ValueError(f"request of {size_bytes} bytes: must be at least 1")
    for class_bytes in classes(minimum_bytes):
        if size_bytes <= class_bytes:
            return class_bytes
    raise ValueError(f"request of {size_bytes} bytes: SLAB serves at most {LARGEST_BYTES}")


def alignment_bytes(class_bytes: int, minimum_bytes: int) -> int:
    """Return the alignment of a kmalloc cache of SLAB (``calculate_alignment``).

    SLAB creates these caches with the hardware-cacheline flag: a cache line, halved while the
    object fits in half of it, and never below what the architecture asks for.

    Examples
    --------
    >>> alignment_bytes(32, 32), alignment_bytes(96, 32), alignment_bytes(512, 128)
    (32, 64, 128)
    """
    align_bytes = CACHE_LINE_BYTES
    while class_bytes <= align_bytes // 2:
        align_bytes //= 2
    return max(align_bytes, minimum_bytes if minimum_bytes > CACHE_LINE_BYTES else 8)


def cache_name(class_bytes: int) -> str:
    """Return the name of the cache of a class.

    Examples
    --------
    >>> cache_name(128)
    'kmalloc-128'
    """
    return f"kmalloc-{class_bytes}"
