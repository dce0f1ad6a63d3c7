"""The page allocator: total pages, watermarks, and which request may fail.

Models one zone of 4 KiB pages: blocks of 2**order pages, handed out last-in first-out, split when a
smaller one is missing; the watermark rule of ``zone_watermark_ok`` (5.4 to 6.18: GFP_NOWAIT may go
down to `min` and then fails) and the watermarks of ``__setup_per_zone_wmarks`` (4.6 and later).
Leaves out: several zones and ``lowmem_reserve``, per-CPU page lists, migrate types, and the merging
of freed blocks into larger ones; an order > 0 request can therefore fail although enough single pages
are free, somewhat earlier than in a kernel.
"""

from __future__ import annotations

import math

import attrs

from rcusim._jit import IntArray, grown, integers, kernel
from rcusim.units import PAGES_PER_MIB

# words of the flat state
FREE = 0  # pages not given out
NEXT = 1  # first frame that was never given out
TOTAL = 2  # frames that may be given out
GIVEN = 3  # pages given out
FAILED = 4  # requests refused
RETURNED = 5  # pages ever given back
HEADS = 6  # first free frame of each order, -1: none
ORDERS = 11  # MAX_ORDER of 3.x .. 6.3: orders 0 .. 10
WORDS = HEADS + ORDERS


@kernel
def take_pages(words: IntArray, links: IntArray, order: int, mark: int) -> int:
    """Take 2**order pages unless that would leave `mark` free pages or fewer; return a frame or -1."""
    pages = 1 << order
    if words[FREE] - (pages - 1) <= mark:
        words[FAILED] += 1
        return -1
    frame = words[HEADS + order]
    if frame >= 0:
        words[HEADS + order] = links[frame]
    elif words[NEXT] + pages <= words[TOTAL]:
        frame = words[NEXT]
        words[NEXT] += pages
    else:
        larger = order + 1
        while larger < ORDERS and words[HEADS + larger] < 0:
            larger += 1
        if larger >= ORDERS:
            words[FAILED] += 1
            return -1
        frame = words[HEADS + larger]
        words[HEADS + larger] = links[frame]
        while larger > order:
            larger -= 1
            upper = frame + (1 << larger)
            links[upper] = words[HEADS + larger]
            words[HEADS + larger] = upper
    words[FREE] -= pages
    words[GIVEN] += pages
    return frame


@kernel
def give_pages(words: IntArray, links: IntArray, frame: int, order: int) -> None:
    """Take back the 2**order pages that begin at `frame`."""
    links[frame] = words[HEADS + order]
    words[HEADS + order] = frame
    words[FREE] += 1 << order
    words[GIVEN] -= 1 << order
    words[RETURNED] += 1 << order


@attrs.frozen
class Watermarks:
    """Free pages at which the kernel begins to worry, and at which it refuses."""

    min_pages: int
    low_pages: int
    high_pages: int

    @classmethod
    def of(cls, total_pages: int) -> Watermarks:
        """Return the watermarks of a single zone (``init_per_zone_wmark_min``, scale factor 10).

        Examples
        --------
        >>> Watermarks.of(262144)
        Watermarks(min_pages=1024, low_pages=1286, high_pages=1548)
        """
        min_kib = min(max(math.isqrt(16 * total_pages * 4), 128), 65536)
        min_pages = min_kib // 4
        gap = max(min_pages // 4, total_pages * 10 // 10000)
        return cls(min_pages, min_pages + gap, min_pages + 2 * gap)


@attrs.define(eq=False)
class PageAllocator:
    """All pages of the machine.

    Parameters
    ----------
    memory_mib : int
        RAM of the machine.
    """

    memory_mib: int
    total_pages: int = attrs.field(init=False)
    watermarks: Watermarks = attrs.field(init=False)
    words: IntArray = attrs.field(init=False)
    links: IntArray = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.total_pages = self.memory_mib * PAGES_PER_MIB
        self.watermarks = Watermarks.of(self.total_pages)
        self.words = integers(WORDS, fill=-1)
        for word in range(HEADS):
            self.words[word] = 0
        self.words[FREE] = self.words[TOTAL] = self.total_pages
        self.links = integers(0, bits=32)

    @property
    def given_pages(self) -> int:
        """Pages that somebody has taken and not given back."""
        return int(self.words[GIVEN])

    @property
    def free_pages(self) -> int:
        """Pages that nobody has."""
        return int(self.words[FREE])

    @property
    def refused(self) -> int:
        """Requests that were refused."""
        return int(self.words[FAILED])

    @property
    def returned_pages(self) -> int:
        """Pages that were ever given back."""
        return int(self.words[RETURNED])

    @property
    def frames(self) -> int:
        """Number of frames that were ever given out; frames are handed out from 0 upwards."""
        return int(self.words[NEXT])

    def reserve(self, pages: int) -> int:
        """Make room in the links for `pages` more; return how many frames that covers."""
        frames = min(self.total_pages, self.frames + pages)
        if len(self.links) < frames:
            self.links = grown(self.links, min(self.total_pages, 2 * frames + 1024))
        return len(self.links)

    def take(self, order: int, mark: int) -> int:
        """Take 2**order pages for which `mark` pages must stay free; return a frame or -1."""
        if self.words[NEXT] + (1 << order) > len(self.links):
            self.reserve(1 << order)
        return int(take_pages(self.words, self.links, order, mark))

    def take_nowait(self) -> int:
        """Take a page with ``GFP_NOWAIT | __GFP_NOWARN``: fails at ``free <= min``."""
        return self.take(0, self.watermarks.min_pages)

    def take_base(self, pages: int) -> None:
        """Take `pages` for good, at the end of memory: the kernel image and whoever else was there.

        Raises
        ------
        ValueError
            When there are not so many.
        """
        if pages > self.free_pages or pages > self.words[TOTAL] - self.frames:
            raise ValueError(f"{pages} pages are more than are left of {self.total_pages}")
        self.words[TOTAL] -= pages
        self.words[FREE] -= pages
        self.words[GIVEN] += pages

    def refuse(self, requests: int) -> None:
        """Count requests that were not made because they could only fail as the last one did."""
        self.words[FAILED] += requests

    def give(self, frame: int, order: int = 0) -> None:
        """Give 2**order pages back."""
        give_pages(self.words, self.links, frame, order)

    def available_pages(self) -> int:
        """Return what ``si_mem_available()`` estimates: free pages less the reserve (5.4).

        There are no file pages and no reclaimable slabs in this machine, so only the first line of
        the kernel's sum is left.
        """
        return max(0, self.free_pages - self.watermarks.high_pages)
