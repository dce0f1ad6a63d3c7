"""Joonsoo Kim's three tables of ``/proc/slabinfo`` (2013) from a simulated SLAB.

Each generation is one machine with one CPU and the eight caches of its table. Every cache is filled
until it has the slabs that the table shows, all objects in use, and then loses objects one by one,
each through the CPU's array and the reaper back to its slab, until as many are left as in the table.
Everything printed is then read from the simulated ``/proc/slabinfo``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from rcusim._jit import integers
from rcusim.errors import InternalError
from rcusim.formats.slabinfo import SlabinfoRow
from rcusim.machine.pages import PageAllocator
from rcusim.slab import kmalloc
from rcusim.slab.layout import CacheRequest
from rcusim.slab.prices import SlabPrices
from rcusim.slab.slab import Slab

MEMORY_MIB = 512
MINIMUM_BYTES = 32

KMEM_CACHE = "kmem_cache"
KMEM_CACHE_BYTES = 168
"""Size of ``struct kmem_cache`` with one CPU and one node; 129 to 192 bytes give the same."""

COMPARED = (
    "objsize",
    "objperslab",
    "pagesperslab",
    "limit",
    "batchcount",
    "sharedfactor",
    "num_objs",
)
"""Columns that a table of published numbers shows; the others are what the machine was driven to."""


@attrs.frozen
class Line:
    """A line of a published table and the simulated one."""

    generation: str
    published: SlabinfoRow
    simulated: SlabinfoRow


def published_row(columns: Mapping[str, str]) -> SlabinfoRow:
    """Return a line of a table as it was published."""
    numbers = {
        name: int(value) for name, value in columns.items() if name not in {"generation", "name"}
    }
    return SlabinfoRow(name=columns["name"], **numbers)  # type: ignore[arg-type] # has no statistics


def simulated_lines(generation: str, table: Sequence[SlabinfoRow]) -> Iterator[Line]:
    """Simulate a machine of a generation and yield the lines of its table.

    Parameters
    ----------
    generation : str
        A name of :data:`rcusim.slab.layout.LAYOUTS`.
    table : sequence of SlabinfoRow
        What was published; of each row the name, the slabs and the objects in use are taken.

    Raises
    ------
    InternalError
        When memory runs out on the way.
    """
    slab = machine(generation, [row.name for row in table])
    numbers = {row.name: slab.cache_names.index(row.name) for row in table}
    # a cache that has its management elsewhere comes first: it takes objects of another cache
    for row in sorted(table, key=lambda row: slab.caches[numbers[row.name]].management < 0):
        drive(slab, numbers[row.name], row.num_slabs, row.active_objs)
    for row in table:
        yield Line(generation, row, slab.slabinfo_row(numbers[row.name]))


def machine(generation: str, names: Sequence[str]) -> Slab:
    """Return a SLAB of one CPU with the caches named, and those for their management."""
    words = [name.removeprefix("kmalloc-") for name in names if name != KMEM_CACHE]
    request = CacheRequest(
        size_bytes=KMEM_CACHE_BYTES,
        align_bytes=kmalloc.CACHE_LINE_BYTES,
        early=True,
        minimum_bytes=MINIMUM_BYTES,
    )
    return Slab(
        pages=PageAllocator(MEMORY_MIB),
        cpus=1,
        layout=generation,
        minimum_bytes=MINIMUM_BYTES,
        sizes_bytes=[int(word) for word in words],
        prices=SlabPrices(**{field.name: 0 for field in attrs.fields(SlabPrices)}),
        created={KMEM_CACHE: request},
    )


def drive(slab: Slab, cache: int, slabs: int, active_objects: int) -> None:
    """Bring a cache to so many slabs, of which so many objects are in use and none is in an array.

    Raises
    ------
    InternalError
        When memory runs out.
    """
    counts = slab.counters(cache)
    held = slab.handed_out_objects(cache) + counts["managers_taken"] - counts["managers_given"]
    room = slabs * slab.caches[cache].geometry.objects_per_slab
    wanted = room - held
    addresses = integers(wanted)
    if slab.allocate(0, cache, wanted, addresses, 0) < wanted:
        raise InternalError(f"no memory for {slabs} slabs of {slab.cache_names[cache]}")
    surplus = room - active_objects
    for number in range(surplus):
        # spread over all slabs, so that none becomes empty
        slab.release(0, addresses, number * wanted // surplus, 1, 1)
        # the first reap sees an array that was used, the second returns what is in it
        slab.reap(0, 0)
        slab.reap(0, 0)
