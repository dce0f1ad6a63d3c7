"""What rooms promise each other: protocols between floors, and the lock that they all know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs


class IntArray(Protocol):
    """What a kernel needs of an array: an integer ``ndarray`` or a list of ``int``."""

    def __len__(self) -> int:
        """Return the number of elements."""
        ...

    def __getitem__(self, index: int, /) -> int:
        """Return one element."""
        ...

    def __setitem__(self, index: int, value: int, /) -> None:
        """Set one element."""
        ...


@attrs.define(eq=False, kw_only=True)
class Hold:
    """A lock as a serial resource: who comes while another CPU holds it waits.

    A CPU never waits for itself: locks are held with interrupts off, so that what a CPU has booked
    as held is over when it comes again.

    Parameters
    ----------
    name : str
        The kernel's name of the lock, for reports.

    Attributes
    ----------
    free_at_ns : int
        When the last holder lets go.
    wait_ns : int
        Time spent waiting for it, of all.
    holder : int
        The CPU that held it last.
    """

    name: str
    free_at_ns: int = 0
    wait_ns: int = 0
    holder: int = -1

    def acquire(self, now_ns: int, hold_ns: int, cpu: int) -> int:
        """Hold the lock for `hold_ns` as early as possible; return how long `cpu` had to wait."""
        start_ns = now_ns if cpu == self.holder else max(now_ns, self.free_at_ns)
        self.free_at_ns = max(self.free_at_ns, start_ns) + hold_ns
        self.holder = cpu
        self.wait_ns += start_ns - now_ns
        return start_ns - now_ns


class Callbacks(Protocol):
    """A run of callbacks on a segmented callback list: one ``rcu_work`` or many ``kfree_rcu`` objects.

    After :meth:`invoke`, `held` names the locks that were held, with ns; the caller empties it.
    """

    held: list[tuple[Hold, int]]

    @property
    def count(self) -> int:
        """Number of callbacks not yet invoked, at least 1 while on a list."""
        ...

    def ready(self) -> None:
        """Note that the grace period is over: the callbacks have been moved to the DONE segment."""
        ...

    def invoke(self, cpu: int, limit: int, budget_ns: int) -> tuple[int, int]:
        """Invoke callbacks from the front of the run.

        Parameters
        ----------
        cpu : int
            The CPU that invokes.
        limit : int
            At most this many callbacks, at least 1.
        budget_ns : int
            Stop at the first multiple of 32 callbacks at which this much time is used up; 0 means
            no limit (``rcu_do_batch``, the time check).

        Returns
        -------
        invoked : int
            How many were invoked; 1 at least.
        price_ns : int
            What they cost.
        """
        ...


class Allocator(Protocol):
    """A slab allocator for the objects of a run.

    After each operation `price_ns` is what it cost the calling CPU and `held` names the locks it held,
    with ns; both speak of the last operation only.
    """

    price_ns: int
    held: list[tuple[Hold, int]]

    def cache_of(self, size_bytes: int) -> int:
        """Return the index of the kmalloc cache that serves a request of `size_bytes`."""
        ...

    def object_bytes(self, cache: int) -> int:
        """Return the class size of a cache: what one object occupies."""
        ...

    def cache_of_object(self, address: int) -> int:
        """Return the index of the cache that an object belongs to."""
        ...

    def allocate(self, cpu: int, cache: int, n: int, out: IntArray, first: int) -> int:
        """Allocate up to `n` objects with GFP_KERNEL into ``out[first:]``; return how many were had."""
        ...

    def release(self, cpu: int, addresses: IntArray, first: int, n: int, step: int) -> None:
        """Free `n` objects one by one: ``addresses[first]``, ``addresses[first + step]``, ..."""
        ...

    def release_bulk(self, cpu: int, addresses: IntArray, first: int, n: int) -> None:
        """Free ``addresses[first : first + n]`` with one ``kfree_bulk()``."""
        ...

    def reap(self, cpu: int, now_ns: int) -> None:
        """Do the periodic work of a CPU (SLAB's ``cache_reap``); allocators without one do nothing."""
        ...

    def address_bound(self) -> int:
        """Return a number above every address that can have been handed out so far."""
        ...

    def handed_out_objects(self) -> int:
        """Return the objects that are out, from the counters of the arrays."""
        ...

    def handed_out_bytes(self) -> int:
        """Return the bytes, at class size, of all objects that are out, from the same counters."""
        ...

    def recount_objects(self) -> int:
        """Return the objects that are out by walking every slab and array: slow and independent."""
        ...

    def pages(self) -> int:
        """Return the pages that slabs hold at this instant, as counted when they come and go."""
        ...

    def recount_pages(self) -> int:
        """Return the same by walking every slab list: slow and independent."""
        ...

    def drained_pages_most(self) -> int:
        """Return the most pages that may be left when no object is out: what caches may keep."""
        ...

    def locks(self) -> Sequence[Hold]:
        """Return the locks, for reports."""
        ...

    def counters(self) -> Mapping[str, int]:
        """Return totals by path, for reports: names with units."""
        ...
