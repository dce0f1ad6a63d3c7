"""The text of ``/proc/slabinfo``.

Written is version 2.1, as ``cache_show`` (``s_show`` before) prints it from 2.6.10 to today; the text of a 2.1 dump
comes back byte by byte. Read are also 2.0 (2.6.0 to 2.6.9: the same columns) and 1.1 (2.4: no line
of headings, no objects per slab). A line that is none is reported with its number and kept out of
the rows. Leaves out: writing 1.1 and 2.0, and the tabs that a continued string put between the
statistics of 2.6 kernels, which are read but written as single spaces.
"""

from __future__ import annotations

import re
from typing import Protocol, runtime_checkable

import attrs

VERSIONS = ("1.1", "2.0", "2.1")
COLUMNS = (
    "# name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab>"
    " : tunables <limit> <batchcount> <sharedfactor>"
    " : slabdata <active_slabs> <num_slabs> <sharedavail>"
)
"""The second line of 2.1. That of 2.0 and of early 2.1 swaps limit and batchcount, the values are
in this order all the same."""


@attrs.frozen(kw_only=True)
class SlabinfoRow:
    """A line of ``/proc/slabinfo``: a cache.

    Attributes
    ----------
    name : str
        May contain blanks.
    active_objs : int
        Objects that are not free as slabs see it. SLAB: those that wait in arrays count as active.
        SLUB: so do the free ones of CPU slabs and of the CPUs' partial lists.
    num_objs : int
        Objects that all slabs have room for.
    objsize : int
        Bytes of an object after alignment, debugging data included.
    objperslab, pagesperslab : int
        Geometry. `objperslab` is 0 where 1.1 does not tell: it is derived there, and needs a slab.
    limit, batchcount, sharedfactor : int
        SLAB's arrays; 0 under SLUB.
    active_slabs, num_slabs : int
        SLAB: those with an object in use, and all. SLUB: all, twice.
    sharedavail : int
        Objects in SLAB's shared arrays.
    globalstat, cpustat : tuple of int
        Statistics of CONFIG_DEBUG_SLAB, in the order of the text; empty where there are none.
    """

    name: str
    active_objs: int
    num_objs: int
    objsize: int
    objperslab: int
    pagesperslab: int
    limit: int
    batchcount: int
    sharedfactor: int
    active_slabs: int
    num_slabs: int
    sharedavail: int
    globalstat: tuple[int, ...] = ()
    cpustat: tuple[int, ...] = ()

    @property
    def line(self) -> str:
        """The line as 2.1 prints it, without newline."""
        text = (
            f"{self.name:<17} {self.active_objs:6} {self.num_objs:6} {self.objsize:6}"
            f" {self.objperslab:4} {self.pagesperslab:4}"
            f" : tunables {self.limit:4} {self.batchcount:4} {self.sharedfactor:4}"
            f" : slabdata {self.active_slabs:6} {self.num_slabs:6} {self.sharedavail:6}"
        )
        if self.globalstat:
            widths = (7, 6, 5, *(4 for _ in self.globalstat[3:]))
            cells = zip(self.globalstat, widths, strict=True)
            text += " : globalstat" + "".join(f" {value:{width}}" for value, width in cells)
        if self.cpustat:
            text += " : cpustat" + "".join(f" {value:6}" for value in self.cpustat)
        return text


@runtime_checkable
class Slabs(Protocol):
    """Whoever can say what ``/proc/slabinfo`` shows about its caches."""

    @property
    def cache_names(self) -> tuple[str, ...]:
        """Names of the caches, by number."""
        ...

    def slabinfo_row(self, cache: int) -> SlabinfoRow:
        """Return the line of a cache."""
        ...


@attrs.frozen
class Damage:
    """A line that could not be understood.

    Attributes
    ----------
    line : int
        Its number, from 1.
    text : str
        The line.
    reason : str
        What is wrong.
    """

    line: int
    text: str
    reason: str


@attrs.frozen(kw_only=True)
class Slabinfo:
    """A dump.

    Attributes
    ----------
    rows : tuple of SlabinfoRow
        In the order of the text.
    version : str
        One of :data:`VERSIONS`.
    flags : str
        What stands behind the version: ``(statistics)``, ``(SMP)``, or nothing.
    columns : str
        The line of headings; empty in 1.1.
    damaged : tuple of Damage
        Lines that could not be understood.
    """

    rows: tuple[SlabinfoRow, ...]
    version: str = "2.1"
    flags: str = ""
    columns: str = COLUMNS
    damaged: tuple[Damage, ...] = ()


_VERSION = re.compile(r"slabinfo - version: (?P<version>\S+)(?: (?P<flags>\S.*))?")
_NAME = r"(?P<name>\S(?:.*\S)?)\s+"
_NUMBER = r"\d{1,20}"


def _group(name: str, least: int, most: int | None = None) -> str:
    """Return a pattern of so many numbers."""
    most = least if most is None else most
    return rf"(?P<{name}>{_NUMBER}(?:\s+{_NUMBER}){{{least - 1},{most - 1}}})"


_LINE_2 = re.compile(
    _NAME
    + _group("objects", 5)
    + r"\s+:\s+tunables\s+"
    + _group("tunables", 3)
    + r"\s+:\s+slabdata\s+"
    + _group("slabdata", 3)
    + r"(?:\s+:\s+globalstat\s+"
    + _group("globalstat", 7, 9)
    + r")?(?:\s+:\s+cpustat\s+"
    + _group("cpustat", 4)
    + ")?"
)
_LINE_1 = re.compile(
    _NAME
    + _group("objects", 6)
    + r"(?:\s+:\s+"
    + _group("globalstat", 5)
    + r")?(?:\s+:\s+"
    + _group("tunables", 2)
    + r")?(?:\s+:\s+"
    + _group("cpustat", 4)
    + ")?"
)


def write(dump: Slabinfo) -> str:
    """Return the text of a dump.

    Raises
    ------
    ValueError
        When it is not of version 2.1.
    """
    if dump.version != "2.1":
        raise ValueError(f"slabinfo {dump.version}: only 2.1 is written")
    flags = f" {dump.flags}" if dump.flags else ""
    lines = [f"slabinfo - version: {dump.version}{flags}", dump.columns]
    return "".join(f"{line}\n" for line in (*lines, *(row.line for row in dump.rows)))


def parse(text: str) -> Slabinfo:
    """Read a dump.

    A text without the line of the version is read as 2.1, and the lack of that line reported as
    damage of line 1. Empty lines are passed over. Numbers are not checked against each other: the
    kernel itself does not take them at one instant.

    Raises
    ------
    ValueError
        When the version is none of :data:`VERSIONS`.
    """
    lines = text.split("\n")
    head = _VERSION.fullmatch(lines[0].rstrip())
    damaged: list[Damage] = []
    version, flags = "2.1", ""
    if head is not None:
        version, flags = head["version"], head["flags"] or ""
        if version not in VERSIONS:
            raise ValueError(f"slabinfo {version}: must be one of {', '.join(VERSIONS)}")
    else:
        damaged.append(Damage(1, lines[0], "no line `slabinfo - version: ...` before: read as 2.1"))
    columns = COLUMNS if version == "2.1" else ""
    rows: list[SlabinfoRow] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or (number == 1 and head is not None):
            continue
        if line.startswith("# name") and not rows and version != "1.1":
            columns = line.rstrip()
            continue
        found = _row(line.strip(), version)
        if isinstance(found, SlabinfoRow):
            rows.append(found)
        else:
            damaged.append(Damage(number, line, found))
    return Slabinfo(
        rows=tuple(rows), version=version, flags=flags, columns=columns, damaged=tuple(damaged)
    )


def _row(line: str, version: str) -> SlabinfoRow | str:
    """Return the row of a line, or what is wrong with it."""
    found = (_LINE_1 if version == "1.1" else _LINE_2).fullmatch(line)
    if found is None:
        return f"is no line of slabinfo {version}"
    group = {name: _numbers(value) for name, value in found.groupdict().items() if name != "name"}
    if version == "1.1":
        return _row_of_1(found["name"], group)
    active, objects, size, per_slab, pages = group["objects"]
    limit, batch, factor = group["tunables"]
    active_slabs, slabs, shared = group["slabdata"]
    return SlabinfoRow(
        name=found["name"],
        active_objs=active,
        num_objs=objects,
        objsize=size,
        objperslab=per_slab,
        pagesperslab=pages,
        limit=limit,
        batchcount=batch,
        sharedfactor=factor,
        active_slabs=active_slabs,
        num_slabs=slabs,
        sharedavail=shared,
        globalstat=group["globalstat"],
        cpustat=group["cpustat"],
    )


def _row_of_1(name: str, group: dict[str, tuple[int, ...]]) -> SlabinfoRow | str:
    """Return a row of 1.1, in which objects per slab follow from the others, or what is wrong."""
    active, objects, size, active_slabs, slabs, pages = group["objects"]
    if (objects % slabs if slabs else objects) != 0:
        return f"{objects} objects do not fill {slabs} slabs evenly"
    limit, batch = group["tunables"] or (0, 0)
    return SlabinfoRow(
        name=name,
        active_objs=active,
        num_objs=objects,
        objsize=size,
        objperslab=objects // slabs if slabs else 0,
        pagesperslab=pages,
        limit=limit,
        batchcount=batch,
        sharedfactor=0,
        active_slabs=active_slabs,
        num_slabs=slabs,
        sharedavail=0,
        globalstat=group["globalstat"],
        cpustat=group["cpustat"],
    )


def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple(int(word) for word in (text or "").split())
