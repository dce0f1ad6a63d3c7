"""Whether caches of a real ``/proc/slabinfo`` look as our geometry says.

Compared are pages and objects per slab. Under SLUB they follow from the size shown and the number of
CPUs. What decides them and does not stand in a dump of SLAB is the size before alignment, the
alignment, whether the cache was created while the allocator booted, and flags; so every combination
that could have led to the size shown is laid out. A cache agrees when all of them give what the dump
shows, disagrees when none does, and is undetermined otherwise. kmalloc caches tell their size by
their name. Leaves out: the tunables, which a running system may
have changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum

import attrs

from rcusim.formats.slabinfo import SlabinfoRow
from rcusim.slab import kmalloc, slub_layout
from rcusim.slab.layout import LAYOUTS, CacheRequest, SlabLayout, geometry, is_early
from rcusim.units import PAGE_SIZE_BYTES, POINTER_BYTES

SLAB_LAYOUTS = {
    "slab-gen1": "gen1_struct_slab",
    "slab-gen2": "gen2_page_overlay",
    "slab-gen3": "gen3_byte_index",
    "slab-gen4": "gen4_objfreelist",
}
"""Names of the generations of SLAB, and of the layouts they are."""

ALLOCATORS = (*SLAB_LAYOUTS, *slub_layout.RULES)
"""Allocators whose dumps can be checked."""

Shape = tuple[int, int]
"""Objects per slab and pages per slab."""


class Verdict(StrEnum):
    """What is found about a cache."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNDETERMINED = "undetermined"


@attrs.frozen(kw_only=True)
class Finding:
    """A cache of a dump beside our geometry.

    Attributes
    ----------
    row : SlabinfoRow
        The line of the dump.
    verdict : Verdict
        Whether it agrees.
    ours : tuple of (int, int)
        Objects and pages per slab that our geometry gives, each possible pair once, ascending.
    why : str
        Why it is undetermined.
    """

    row: SlabinfoRow
    verdict: Verdict
    ours: tuple[Shape, ...]
    why: str = ""


def check_dump(rows: Sequence[SlabinfoRow], allocator: str, cpus: int) -> tuple[Finding, ...]:
    """Compare the caches of a dump with our geometry.

    Parameters
    ----------
    rows : sequence of SlabinfoRow
        The dump.
    allocator : str
        One of :data:`ALLOCATORS`.
    cpus : int
        CPUs of the machine, all possible and present; the geometry of SLAB does not depend on them.

    Raises
    ------
    ValueError
        For another allocator, or no CPU.
    """
    if allocator not in ALLOCATORS:
        raise ValueError(f"allocator {allocator!r}: must be one of {', '.join(ALLOCATORS)}")
    if cpus < 1:
        raise ValueError(f"{cpus} CPUs: must be at least 1")
    if allocator not in SLAB_LAYOUTS:
        return tuple(_verdict(row, _slub_shapes(row, allocator, cpus)) for row in rows)
    layout = LAYOUTS[SLAB_LAYOUTS[allocator]]
    minimums = _minimums(rows)
    return tuple(_verdict(row, _slab_shapes(row, layout, cpus, minimums)) for row in rows)


def totals(findings: Sequence[Finding]) -> dict[Verdict, int]:
    """Return how many caches got each verdict."""
    counts = Counter(finding.verdict for finding in findings)
    return {verdict: counts[verdict] for verdict in Verdict}


def _verdict(row: SlabinfoRow, shapes: set[Shape]) -> Finding:
    """Return the finding on a cache that can have these shapes; none: its size cannot come about."""
    ours = tuple(sorted(shapes))
    if row.objperslab == 0:
        why = "no objects per slab in the dump"
        return Finding(row=row, verdict=Verdict.UNDETERMINED, ours=ours, why=why)
    if not ours:
        why = f"nothing gives objects of {row.objsize} bytes: built with debugging?"
        return Finding(row=row, verdict=Verdict.UNDETERMINED, ours=ours, why=why)
    if (row.objperslab, row.pagesperslab) not in shapes:
        return Finding(row=row, verdict=Verdict.DISAGREES, ours=ours)
    if len(ours) > 1:
        why = "depends on the size before alignment, the alignment or flags"
        return Finding(row=row, verdict=Verdict.UNDETERMINED, ours=ours, why=why)
    return Finding(row=row, verdict=Verdict.AGREES, ours=ours)


def _slub_shapes(row: SlabinfoRow, rules: str, cpus: int) -> set[Shape]:
    """Return the shape of a cache of SLUB; none when no slab holds its objects."""
    if row.objsize == 0:
        return set()
    try:
        found = slub_layout.geometry(rules, row.objsize, cpus)
    except ValueError:
        return set()
    return {(found.objects_per_slab, 1 << found.order)}


# -- SLAB ------------------------------------------------------------------------------------------

_KMALLOC = re.compile(
    r"(?P<kind>dma-kmalloc|kmalloc(?:-rcl|-cg|-rnd-\d\d)?)-(?P<size>[1-9]\d*)(?P<unit>[kM]?)"
)
_UNITS = {"": 1, "k": 1 << 10, "M": 1 << 20}
_ON_SLAB = re.compile("kmem_cache|kmemleak_.*")
"""Caches whose management stays on-slab up to 4.5: the first one of all, and those of the leak
detector (SLAB_NOLEAKTRACE), which must not come to itself."""


@attrs.frozen
class _Kmalloc:
    """What the name of a kmalloc cache tells."""

    size_bytes: int
    early: bool
    reclaimable: bool


def _kmalloc(name: str) -> _Kmalloc | None:
    found = _KMALLOC.fullmatch(name)
    if found is None:
        return None
    size_bytes = int(found["size"]) * _UNITS[found["unit"]]
    return _Kmalloc(size_bytes, found["kind"] == "kmalloc", found["kind"] == "kmalloc-rcl")


def _minimums(rows: Sequence[SlabinfoRow]) -> tuple[int, ...]:
    """Return what the smallest kmalloc class can be, given the classes of a dump."""
    named = (_kmalloc(row.name) for row in rows)
    sizes = {found.size_bytes for found in named if found is not None}
    possible = [least for least in kmalloc.MINIMUMS_BYTES if sizes <= set(kmalloc.classes(least))]
    return tuple(possible) if possible else kmalloc.MINIMUMS_BYTES


def _slab_shapes(
    row: SlabinfoRow, layout: SlabLayout, cpus: int, minimums: Sequence[int]
) -> set[Shape]:
    """Return all shapes that a cache of SLAB can have, given its name and size."""
    shapes: set[Shape] = set()
    for request in _requests(row, layout, cpus, minimums):
        if layout.object_bytes(request) != row.objsize:
            continue
        try:
            found = geometry(layout, request)
        except ValueError:  # no slab holds such an object
            continue
        shapes.add((found.objects_per_slab, 1 << found.order))
    return shapes


def _requests(
    row: SlabinfoRow, layout: SlabLayout, cpus: int, minimums: Sequence[int]
) -> Iterator[CacheRequest]:
    """Yield all requests that can be behind a line."""
    named = _kmalloc(row.name)
    for minimum_bytes in minimums:
        # a reclaim-accounted cache takes the first order that will do, as all do in a small machine
        reclaims = (True,) if named is not None and named.reclaimable else (False, True)
        for reclaim in reclaims:
            if named is None:
                yield from _created(row, layout, cpus, minimum_bytes, large_memory=not reclaim)
            else:
                yield CacheRequest(
                    size_bytes=named.size_bytes,
                    align_bytes=kmalloc.alignment_bytes(named.size_bytes, minimum_bytes),
                    early=named.early and is_early(named.size_bytes, minimum_bytes),
                    minimum_bytes=minimum_bytes,
                    cpus=cpus,
                    large_memory=not reclaim,
                )


def _created(
    row: SlabinfoRow, layout: SlabLayout, cpus: int, minimum_bytes: int, *, large_memory: bool
) -> Iterator[CacheRequest]:
    """Yield the requests that ``kmem_cache_create`` can have been asked for a line."""
    align_bytes = POINTER_BYTES
    while align_bytes <= PAGE_SIZE_BYTES and row.objsize and row.objsize % align_bytes == 0:
        for size_bytes in range(
            max(POINTER_BYTES, row.objsize - align_bytes + POINTER_BYTES),
            row.objsize + 1,
            POINTER_BYTES,
        ):
            for keeps_contents in (False, True) if layout.off_slab_bytes == 0 else (False,):
                yield CacheRequest(
                    size_bytes=size_bytes,
                    align_bytes=align_bytes,
                    early=_ON_SLAB.fullmatch(row.name) is not None,
                    keeps_contents=keeps_contents,
                    minimum_bytes=minimum_bytes,
                    cpus=cpus,
                    large_memory=large_memory,
                )
        align_bytes *= 2
