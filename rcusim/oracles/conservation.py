"""Conservation: three accounts of the same memory agree at every instant.

The allocator counts what its arrays and slabs gave out, the books count what the reclaim code moved,
the page allocator counts pages. After every step that can change memory the totals are compared; now and then, and at the end,
everything is counted anew from slab rows, chunks and page lists, part by part.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from rcusim.abc import Allocator
from rcusim.errors import PropertyViolation
from rcusim.machine.pages import PageAllocator
from rcusim.oracles.ledger import LIVE, QUEUED, Ledger
from rcusim.reclaim.base import Generation
from rcusim.reclaim.books import Books, Part

FIRST_RECOUNT_STEPS = 256


@attrs.define(eq=False)
class Conservation:
    """The law for a run.

    Parameters
    ----------
    other_pages : int
        Pages in use before the run.
    live_objects : callable
        Objects that workloads hold, counted by them.
    cached_pages : int
        Most block pages that may be left in caches after a drained run.
    """

    now_ns: Callable[[], int]
    allocator: Allocator
    pages: PageAllocator
    generation: Generation
    books: Books
    ledger: Ledger
    other_pages: int
    live_objects: Callable[[], int]
    cached_pages: int
    steps: int = 0
    recounts: int = 0
    _next_recount: int = FIRST_RECOUNT_STEPS

    def check(self) -> None:
        """Compare the totals; count anew when it is time (after 5/4 of the steps of the last time).

        Called after every step of a thread or softirq; a tick changes no memory.
        """
        out = self.allocator.handed_out_objects()
        if out != self.books.total_objects:
            self._fail_objects(out)
        held = self.allocator.pages() + self.generation.block_pages() + self.other_pages
        if held != self.pages.given_pages:
            self._fail(
                "pages",
                f"{held} pages are held by slabs, blocks and others, {self.pages.given_pages} are given out",
            )
        self.steps += 1
        if self.steps >= self._next_recount:
            self._next_recount += FIRST_RECOUNT_STEPS + self.steps // 4
            self.recount()

    def recount(self) -> None:
        """Count everything anew from rows, chunks and lists."""
        self.recounts += 1
        counted = [0] * len(Part)
        counted[Part.LIVE] = self.live_objects()
        for part, chain in self.generation.chains():
            found = chain.recount()
            if found != chain.objects:
                self._fail(
                    "parts",
                    f"a chain of {part.name.lower()} says {chain.objects} objects and holds {found}: "
                    f"{self._example(part)}",
                )
            counted[part] += found
        for part in Part:
            if counted[part] != self.books.objects[part]:
                self._fail(
                    "parts",
                    f"{part.name.lower()} holds {counted[part]} objects, its books say {self.books.objects[part]}: "
                    f"{self._example(part)}",
                )
        out = self.allocator.recount_objects()
        if out != self.books.total_objects:
            self._fail_objects(out)
        held = (
            self.allocator.recount_pages()
            + self.generation.recount_block_pages()
            + self.other_pages
        )
        if held != self.pages.given_pages:
            self._fail(
                "pages", f"a walk finds {held} pages, {self.pages.given_pages} are given out"
            )

    def drained(self) -> None:
        """Check the end of a run that was drained: nothing is left but caches."""
        self.recount()
        if self.books.total_objects or any(self.books.size_bytes):
            self._fail(
                "bytes",
                f"the drained books hold {self.books.objects} objects and {self.books.size_bytes} bytes",
            )
        left = self.ledger.in_state(QUEUED) + self.ledger.in_state(LIVE)
        if left:
            self._fail("ledger", f"object {left[0]:#x} was never freed, and {len(left) - 1} others")
        blocks = self.generation.block_pages()
        if blocks > self.cached_pages:
            self._fail(
                "pages",
                f"{blocks} block pages are left, the caches hold {self.cached_pages} at most",
            )
        kept, most = self.allocator.pages(), self.allocator.drained_pages_most()
        if kept > most:
            self._fail(
                "pages", f"slabs keep {kept} pages with no object out, their caches allow {most}"
            )

    def _fail_objects(self, out: int) -> None:
        lost = self._lost()
        example = f"; object {lost[0]:#x} is queued and on no list or block" if lost else ""
        self._fail(
            "objects",
            f"the allocator has handed out {out} objects, the books say {self.books.total_objects}{example}",
        )

    def _lost(self) -> list[int]:
        """Return the objects that are queued by the ledger and on no chain."""
        known = {address for _part, chain in self.generation.chains() for address in chain.slots()}
        return [address for address in self.ledger.in_state(QUEUED) if address not in known]

    def _example(self, part: Part) -> str:
        """Name an object concerned: one that is on no chain, else the newest of the part, else any."""
        lost = self._lost()
        if lost:
            return f"object {lost[0]:#x} is queued and on no list or block"
        for where, chain in self.generation.chains():
            if where is part and chain.objects:
                return f"its newest is object {chain.slots()[-1]:#x}"
        queued = self.ledger.in_state(QUEUED)
        return f"object {queued[0]:#x} is among those queued" if queued else "no object is queued"

    def _fail(self, what: str, words: str) -> None:
        raise PropertyViolation(f"conservation of {what}", self.now_ns(), words)
