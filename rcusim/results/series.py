"""Keeps the footprint of a run over time in at most so many bins, and its exact extremes.

Whoever runs the world calls :meth:`SeriesBuilder.observe` after every change. The total is followed
exactly; the parts, which cost more to ask for, are asked once in a bin and at each new peak. All
arithmetic is in integers.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from rcusim.errors import PropertyViolation
from rcusim.results.model import PARTS, Footprint, Series

MOST_BINS = 4096
FIRST_BIN_NS = 1000

PartsOf = Callable[[], tuple[int, ...]]

NO_PARTS = (0,) * len(PARTS)
NEVER_NS = -1


@attrs.define
class Bin:
    """One closed bin.

    Attributes
    ----------
    area_byte_ns : int
        Integral of the total over the bin.
    at_ns : int
        Instant of `parts_bytes`, or -1.
    """

    area_byte_ns: int
    min_bytes: int
    max_bytes: int
    at_ns: int
    parts_bytes: tuple[int, ...]
    gp_ends: int = 0
    emergency_uses: int = 0

    def joined(self, later: Bin) -> Bin:
        """Return this bin and the next one as one."""
        first = self if self.at_ns != NEVER_NS else later
        return Bin(
            self.area_byte_ns + later.area_byte_ns,
            min(self.min_bytes, later.min_bytes),
            max(self.max_bytes, later.max_bytes),
            first.at_ns,
            first.parts_bytes,
            self.gp_ends + later.gp_ends,
            self.emergency_uses + later.emergency_uses,
        )


@attrs.define(eq=False)
class SeriesBuilder:
    """Builds a :class:`~rcusim.results.model.Series`.

    Before the first observation the total is 0. Times never go back. Of several observations at one
    instant each counts for minimum, maximum and peak, the last for the time that follows.

    Parameters
    ----------
    bins : int
        Most bins, an even number; when they run out, their width doubles.
    first_bin_ns : int
        Width at the beginning.
    """

    bins: int = MOST_BINS
    first_bin_ns: int = FIRST_BIN_NS
    _bin_ns: int = attrs.field(init=False)
    _end_ns: int = attrs.field(init=False)
    _closed: list[Bin] = attrs.field(init=False, factory=list)
    _area: int = attrs.field(init=False, default=0)
    _since_ns: int = attrs.field(init=False, default=0)
    _total: int = attrs.field(init=False, default=0)
    _low: int = attrs.field(init=False, default=0)
    _high: int = attrs.field(init=False, default=0)
    _at_ns: int = attrs.field(init=False, default=NEVER_NS)
    _parts: tuple[int, ...] = attrs.field(init=False, default=NO_PARTS)
    _gp_ends: int = attrs.field(init=False, default=0)
    _emergency: int = attrs.field(init=False, default=0)
    _area_before: int = attrs.field(init=False, default=0)
    _peak: int = attrs.field(init=False, default=0)
    _peak_ns: int = attrs.field(init=False, default=0)
    _peak_parts: tuple[int, ...] = attrs.field(init=False, default=NO_PARTS)
    _begin: tuple[int, int] | None = attrs.field(init=False, default=None)
    _finish: tuple[int, int] | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        if self.bins < 2 or self.bins % 2 or self.first_bin_ns < 1:
            raise ValueError("bins must be even and at least 2, first_bin_ns at least 1")
        self._bin_ns = self._end_ns = self.first_bin_ns

    @property
    def bin_ns(self) -> int:
        """Present width of a bin."""
        return self._bin_ns

    def observe(self, now_ns: int, total_bytes: int, parts: PartsOf) -> None:
        """Note that from now on the total is `total_bytes`; `parts` is asked now or never."""
        if now_ns >= self._end_ns:
            self._advance(now_ns)
        if total_bytes != self._total:
            self._area += (now_ns - self._since_ns) * self._total
            self._since_ns = now_ns
            self._total = total_bytes
            if total_bytes > self._high:
                self._high = total_bytes
                if total_bytes > self._peak:
                    self._peak, self._peak_ns = total_bytes, now_ns
                    self._peak_parts = self._asked(now_ns, parts)
            elif total_bytes < self._low:
                self._low = total_bytes
        if self._at_ns == NEVER_NS:
            self._at_ns, self._parts = now_ns, self._asked(now_ns, parts)
            if now_ns == self._end_ns - self._bin_ns:
                # what was before belongs to the bin before
                self._low = self._high = total_bytes

    def hold(self, now_ns: int, parts: PartsOf) -> None:
        """Note that time has come to `now_ns` and nothing has changed since the last observation.

        Optional: gives an instant of all parts to every bin that begins in a stretch in which
        nothing happens. Call it before the first change at `now_ns`; it costs a comparison when no
        bin began.
        """
        if now_ns < self._end_ns:
            return
        known = self._asked(now_ns, parts)
        self._advance(now_ns)
        if self._at_ns != NEVER_NS:
            return
        self._at_ns, self._parts = self._end_ns - self._bin_ns, known
        # a bin without an instant began after the last observation: an observation leaves one
        for index in range(len(self._closed) - 1, -1, -1):
            entry = self._closed[index]
            if entry.at_ns != NEVER_NS:
                break
            entry.at_ns, entry.parts_bytes = index * self._bin_ns, known

    def mark_start(self, now_ns: int) -> None:
        """Begin the time over which the mean is taken; only the first call counts."""
        if self._begin is None:
            self._begin = (now_ns, self._area_until(now_ns))

    def mark_end(self, now_ns: int) -> None:
        """End that time; the last call counts."""
        self._finish = (now_ns, self._area_until(now_ns))

    def grace_period(self, now_ns: int) -> None:
        """Note that a grace period ended."""
        if now_ns >= self._end_ns:
            self._advance(now_ns)
        self._gp_ends += 1

    def emergency(self, now_ns: int, uses: int = 1) -> None:
        """Note that a block could not be had, so that an emergency list was used."""
        if now_ns >= self._end_ns:
            self._advance(now_ns)
        self._emergency += uses

    def finish(self, now_ns: int, parts: PartsOf | None = None) -> Series:
        """Return the series up to `now_ns`; with `parts`, the last bins have an instant too."""
        if now_ns > self._end_ns:
            # the last bin ends at now_ns, so that no bin of no width begins there
            if parts is not None:
                self.hold(now_ns - 1, parts)
            self._advance(now_ns - 1)
        footprint = self._footprint(now_ns)
        bins = [*self._closed, self._open_bin(now_ns)]
        widths = [self._bin_ns] * (len(bins) - 1) + [now_ns - (len(bins) - 1) * self._bin_ns]
        return Series(
            bin_ns=self._bin_ns,
            end_ns=now_ns,
            min_bytes=tuple(entry.min_bytes for entry in bins),
            mean_bytes=tuple(
                entry.area_byte_ns // width if width else self._total
                for entry, width in zip(bins, widths, strict=True)
            ),
            max_bytes=tuple(entry.max_bytes for entry in bins),
            at_ns=tuple(entry.at_ns for entry in bins),
            parts_bytes=tuple(zip(*(entry.parts_bytes for entry in bins), strict=True)),
            gp_ends=tuple(entry.gp_ends for entry in bins),
            emergency_uses=tuple(entry.emergency_uses for entry in bins),
            footprint=footprint,
        )

    def _asked(self, now_ns: int, parts: PartsOf) -> tuple[int, ...]:
        """Return the parts of the present total; they must add up to it."""
        known = parts()
        if len(known) != len(PARTS) or sum(known) != self._total:
            named = ", ".join(f"{part} {size}" for part, size in zip(PARTS, known, strict=False))
            what = f"the parts add up to {sum(known)}, not to {self._total} bytes: {named}"
            raise PropertyViolation("conservation", now_ns, what)
        return known

    def _area_until(self, now_ns: int) -> int:
        return self._area_before + self._area + (now_ns - self._since_ns) * self._total

    def _open_bin(self, until_ns: int) -> Bin:
        """Return the open bin as if it were closed at `until_ns`."""
        area = self._area + (until_ns - self._since_ns) * self._total
        return Bin(
            area, self._low, self._high, self._at_ns, self._parts, self._gp_ends, self._emergency
        )

    def _advance(self, now_ns: int) -> None:
        """Close bins until `now_ns` lies in the open one."""
        while now_ns >= self._bin_ns * self.bins:
            self._double()
        while now_ns >= self._end_ns:
            closed = self._open_bin(self._end_ns)
            self._closed.append(closed)
            self._area_before += closed.area_byte_ns
            self._area, self._since_ns = 0, self._end_ns
            self._low = self._high = self._total
            self._at_ns, self._parts = NEVER_NS, NO_PARTS
            self._gp_ends = self._emergency = 0
            self._end_ns += self._bin_ns

    def _double(self) -> None:
        """Make bins twice as wide: join the closed ones in pairs, an odd last one with the open."""
        closed = self._closed
        if len(closed) % 2:
            last = closed.pop()
            joined = last.joined(self._open_bin(self._since_ns))
            self._area_before -= last.area_byte_ns
            self._area, self._low, self._high = (
                joined.area_byte_ns,
                joined.min_bytes,
                joined.max_bytes,
            )
            self._at_ns, self._parts = joined.at_ns, joined.parts_bytes
            self._gp_ends, self._emergency = joined.gp_ends, joined.emergency_uses
        self._closed = [
            closed[index].joined(closed[index + 1]) for index in range(0, len(closed), 2)
        ]
        self._bin_ns *= 2
        self._end_ns = (len(self._closed) + 1) * self._bin_ns

    def _footprint(self, now_ns: int) -> Footprint:
        begin_ns, begin_area = self._begin if self._begin is not None else (0, 0)
        end = self._finish if self._finish is not None else (now_ns, self._area_until(now_ns))
        length_ns = end[0] - begin_ns
        return Footprint(
            peak_bytes=self._peak,
            peak_ns=self._peak_ns,
            mean_bytes=(end[1] - begin_area) // length_ns if length_ns > 0 else self._total,
            end_bytes=self._total,
            parts_at_peak=self._peak_parts,
        )
