"""The caches of a world: which there are, how they look, in which order they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from rcusim.slab import kmalloc
from rcusim.slab.layout import (
    CacheGeometry,
    CacheRequest,
    SlabLayout,
    geometry,
    is_early,
    kmalloc_request,
    management_class,
)


@attrs.frozen(kw_only=True)
class KmemCache:
    """One cache.

    Attributes
    ----------
    name : str
        As slabinfo prints it.
    class_bytes : int
        Largest request that it serves.
    geometry : CacheGeometry
        Slabs and arrays.
    management : int
        Number of the cache that holds the management of its slabs; -1: on-slab.
    """

    name: str
    class_bytes: int
    geometry: CacheGeometry
    management: int


def kmalloc_caches(
    layout: SlabLayout,
    minimum_bytes: int,
    cpus: int,
    sizes_bytes: Sequence[int],
    *,
    large_memory: bool = True,
) -> tuple[KmemCache, ...]:
    """Return the caches that requests of these sizes need, in the order of their creation.

    Parameters
    ----------
    layout : SlabLayout
        Generation of SLAB.
    minimum_bytes : {32, 128}
        Smallest class.
    cpus : int
        Possible CPUs, all online.
    sizes_bytes : sequence of int
        Requests.
    large_memory : bool
        Whether the machine has more than 32 MiB.

    Raises
    ------
    ValueError
        When a size cannot be served, or the management of a slab would need off-slab management.
    """
    geometries: dict[int, CacheGeometry] = {}
    holders: dict[int, int] = {}

    def lay_out(class_bytes: int) -> CacheGeometry:
        if class_bytes not in geometries:
            request = kmalloc_request(class_bytes, minimum_bytes, cpus, large_memory=large_memory)
            geometries[class_bytes] = geometry(layout, request)
        return geometries[class_bytes]

    for class_bytes in sorted({kmalloc.class_of(size, minimum_bytes) for size in sizes_bytes}):
        found = lay_out(class_bytes)
        if found.off_slab:
            holder = management_class(layout, found.objects_per_slab, minimum_bytes)
            if lay_out(holder).off_slab:
                raise ValueError(f"the management of kmalloc-{class_bytes} needs an off-slab cache")
            holders[class_bytes] = holder
    # those that boot the allocator first, then all others ascending
    order = sorted(geometries, key=lambda size: (not is_early(size, minimum_bytes), size))
    return tuple(
        KmemCache(
            name=kmalloc.cache_name(class_bytes),
            class_bytes=class_bytes,
            geometry=geometries[class_bytes],
            management=order.index(holders[class_bytes]) if class_bytes in holders else -1,
        )
        for class_bytes in order
    )


def with_created(
    layout: SlabLayout, kmalloced: Sequence[KmemCache], created: Mapping[str, CacheRequest]
) -> tuple[KmemCache, ...]:
    """Return kmalloc caches and behind them those that ``kmem_cache_create`` is asked for.

    Parameters
    ----------
    layout : SlabLayout
        Generation of SLAB.
    kmalloced : sequence of KmemCache
        The kmalloc caches.
    created : mapping
        Requests by name.

    Raises
    ------
    ValueError
        When a name is taken, or no kmalloc cache is there for off-slab management.
    """
    caches = list(kmalloced)
    holders = {cache.class_bytes: number for number, cache in enumerate(kmalloced)}
    for name, request in created.items():
        if any(cache.name == name for cache in caches):
            raise ValueError(f"there is a cache {name} already")
        found = geometry(layout, request)
        management = -1
        if found.off_slab:
            holder = management_class(layout, found.objects_per_slab, request.minimum_bytes)
            if holder not in holders:
                raise ValueError(
                    f"the management of {name} needs kmalloc-{holder}, which is not there"
                )
            management = holders[holder]
            if kmalloced[management].management >= 0:
                raise ValueError(f"the management of {name} needs an off-slab cache")
        caches.append(
            KmemCache(
                name=name, class_bytes=request.size_bytes, geometry=found, management=management
            )
        )
    return tuple(caches)
