"""The footprint over time as a figure: one panel for each run, all on one scale.

Colours are those of Okabe and Ito, told apart by the colour-blind; hatches and edges keep the parts
apart in grey print. The file is the same bytes for the same runs and the same matplotlib: no date,
no random ids, no settings of the user.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from rcusim.errors import Problem, ScenarioError
from rcusim.results.model import PARTS, RunResult, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
MOST_PANELS = 12
FINE_COLUMNS = 1024
"""Most points of a curve; a figure has no more pixels than that."""
COARSE_COLUMNS = 160
MANY_GRACE_PERIODS = 100
"""With more, columns are coarse."""
FEW_GRACE_PERIODS = 40
"""Up to so many are drawn as lines through the panel, more as a rug."""


@attrs.frozen
class Style:
    """How a part is drawn."""

    label: str
    colour: str
    hatch: str


STYLES = {
    "other": Style("other (in use before)", "#BFBFBF", ""),
    "live": Style("live", "#009E73", ""),
    "collecting_list": Style("collecting: lists", "#D55E00", "xxxx"),
    "collecting_blocks": Style("collecting: blocks", "#E69F00", "////"),
    "waiting_gp": Style("waiting for a grace period", "#0072B2", ""),
    "waiting_worker": Style("waiting for a worker", "#56B4E9", "...."),
    "block_pages": Style("pages of blocks", "#CC79A7", "----"),
    "slab_slack": Style("slab slack", "#F0E442", "\\\\\\\\"),
}
"""From the bottom of the stack to its top: what an object goes through, then overhead."""

SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "rcusim",
    "svg.fonttype": "path",
    "hatch.linewidth": 0.4,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@attrs.frozen
class Columns:
    """A series made as coarse as a figure can show.

    Parameters
    ----------
    width_ns : int
        Width of a column.
    averaged : bool
        Whether parts are means over a column rather than taken at one instant of it.
    at_ns : list of int
        Where `parts_bytes` are drawn from, ending with the end of the run.
    parts_bytes : dict
        Part to its bytes from those instants on; the last is repeated.
    edges_ns, max_bytes : list of int
        Begin of each column, and the end of the last; largest total in each, the last repeated.
    """

    width_ns: int
    averaged: bool
    at_ns: list[int]
    parts_bytes: dict[str, list[int]]
    edges_ns: list[int]
    max_bytes: list[int]


def columns_of(series: Series) -> Columns:
    """Return a series in columns.

    With few grace periods a column is at most a pixel wide and shows its first instant. With many,
    what rises and falls within each of them would be noise: columns are then wide and show means.
    """
    averaged = sum(series.gp_ends) > MANY_GRACE_PERIODS
    bins = len(series.max_bytes)
    group = -(-bins // (COARSE_COLUMNS if averaged else FINE_COLUMNS))
    starts = range(0, bins, group)
    at_ns: list[int] = []
    sizes: list[tuple[int, ...]] = []
    for start in starts:
        inside = range(start, min(start + group, bins))
        known = [index for index in inside if series.at_ns[index] >= 0]
        if known:
            chosen = known if averaged else known[:1]
            at_ns.append(start * series.bin_ns if averaged else series.at_ns[chosen[0]])
            sizes.append(_mean_parts(series, chosen))
    if not sizes:
        at_ns, sizes = [0], [(0,) * len(PARTS)]
    peaks = [max(series.max_bytes[start : start + group]) for start in starts]
    return Columns(
        width_ns=group * series.bin_ns,
        averaged=averaged,
        at_ns=[*at_ns, series.end_ns],
        parts_bytes=dict(zip(PARTS, map(list, zip(*sizes, sizes[-1], strict=True)), strict=True)),
        edges_ns=[*(start * series.bin_ns for start in starts), series.end_ns],
        max_bytes=[*peaks, peaks[-1]],
    )


def _mean_parts(series: Series, indices: Sequence[int]) -> tuple[int, ...]:
    return tuple(
        sum(column[index] for index in indices) // len(indices) for column in series.parts_bytes
    )


def draw(runs: Sequence[RunResult], file: Path) -> Path:
    """Draw the footprint of runs into a PNG or SVG file and return it.

    Raises
    ------
    ScenarioError
        When the file has another extension or cannot be written, or there are too many runs.
    """
    if file.suffix.lower() not in FORMATS:
        rule = f"must end in {' or '.join(FORMATS)}"
        raise ScenarioError(str(file), [Problem("--output", file.suffix, rule)])
    if not 1 <= len(runs) <= MOST_PANELS:
        rule = f"a figure shows 1 to {MOST_PANELS} runs, not {len(runs)}; name single runs"
        raise ScenarioError(str(file), [Problem("plot", "", rule)])
    from matplotlib import style  # noqa: PLC0415 - slow to import

    with style.context(["default", SETTINGS]):
        figure = footprint_figure(runs)
        _write(figure, file)
    return file


def footprint_figure(runs: Sequence[RunResult]) -> Figure:
    """Return a figure of the footprint over time: a panel for each run on a shared scale."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(9, 1.2 + 2.3 * len(runs)), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(runs), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
    unit, unit_ns = _time_unit(max(run.series.end_ns for run in runs))
    for panel, run in zip(panels, runs, strict=True):
        _panel(panel, run, unit_ns)
        panel.set_ylabel("memory given out\n(MiB)")
    panels[-1].set_xlabel(f"virtual time ({unit})")
    panels[0].set_xlim(0, max(run.series.end_ns for run in runs) / unit_ns or 1)
    peak = max(run.footprint.peak_bytes for run in runs) / (1 << 20)
    panels[0].set_ylim(0, 1.25 * peak or 1)
    _legend(figure, list(panels))
    names = sorted({run.name for run in runs})
    figure.suptitle(f"Memory footprint: {', '.join(names)}", x=0.01, ha="left", fontsize=11)
    return figure


def _time_unit(end_ns: int) -> tuple[str, int]:
    return ("s", 10**9) if end_ns >= 2 * 10**9 else ("ms", 10**6)


def _panel(panel: Axes, run: RunResult, unit_ns: int) -> None:
    columns = columns_of(run.series)
    at = [instant / unit_ns for instant in columns.at_ns]
    bottom = [0.0] * len(at)
    for part, look in STYLES.items():
        sizes = columns.parts_bytes[part]
        if not any(sizes):
            continue
        top = [low + size / (1 << 20) for low, size in zip(bottom, sizes, strict=True)]
        panel.fill_between(
            at, bottom, top, step="post", facecolor=look.colour, hatch=look.hatch,
            edgecolor="#333333", linewidth=0.3, label=look.label,
        )  # fmt: skip
        bottom = top
    edges = [edge / unit_ns for edge in columns.edges_ns]
    most = [size / (1 << 20) for size in columns.max_bytes]
    panel.step(edges, most, where="post", color="black", linewidth=0.7, label="total, maximum")
    _peak(panel, run, unit_ns)
    _grace_periods(panel, run, unit_ns)
    _emergency(panel, run, unit_ns)
    state = "" if run.complete else "  (incomplete)"
    panel.set_title(f"{run.variant}, seed {run.seed}{state}", loc="left")
    panel.set_title(_caption(run, columns), loc="right", fontsize=8, color="#444444")


def _caption(run: RunResult, columns: Columns) -> str:
    words = [f"{run.grace_periods} grace periods"]
    if run.objects.emergency:
        words.append(f"{run.objects.emergency} objects on emergency lists")
    if columns.averaged:
        words.append(f"parts: means over {columns.width_ns / 1e6:.3g} ms")
    return "; ".join(words)


def _peak(panel: Axes, run: RunResult, unit_ns: int) -> None:
    footprint = run.footprint
    peak = footprint.peak_bytes / (1 << 20)
    when = footprint.peak_ns / unit_ns
    late = footprint.peak_ns > run.series.end_ns * 3 // 4
    panel.plot([when], [peak], marker="v", markersize=4, color="black", linestyle="none")
    panel.annotate(
        f"peak {peak:.1f} MiB", (when, peak), xytext=(-5 if late else 5, 3), fontsize=8,
        textcoords="offset points", ha="right" if late else "left",
    )  # fmt: skip


def _grace_periods(panel: Axes, run: RunResult, unit_ns: int) -> None:
    """Mark where grace periods ended: lines when there are few, a rug along the top when many."""
    series = run.series
    ends = [
        (index + 1) * series.bin_ns / unit_ns for index, count in enumerate(series.gp_ends) if count
    ]
    few = sum(series.gp_ends) <= FEW_GRACE_PERIODS
    low, width = (0.0, 0.5) if few else (0.955, 0.4)
    panel.vlines(
        ends, low, 1, transform=panel.get_xaxis_transform(), color="#555555", linewidth=width,
        linestyle=":" if few else "-", label="end of a grace period",
    )  # fmt: skip


def _emergency(panel: Axes, run: RunResult, unit_ns: int) -> None:
    """Mark where an emergency list was used, as a rug below that of the grace periods."""
    series = run.series
    uses = [
        (index + 0.5) * series.bin_ns / unit_ns
        for index, count in enumerate(series.emergency_uses)
        if count
    ]
    if uses:
        panel.vlines(
            uses, 0.89, 0.945, transform=panel.get_xaxis_transform(), color="#D55E00",
            linewidth=0.8, label="no page for a block",
        )  # fmt: skip


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    """Put one legend beside the panels, in the order of the stack from top to bottom."""
    found = {}
    for panel in panels:
        handles, labels = panel.get_legend_handles_labels()
        found.update(dict(zip(labels, handles, strict=True)))
    order = [look.label for look in reversed(STYLES.values()) if look.label in found]
    order += [label for label in found if label not in order]
    figure.legend([found[label] for label in order], order, loc="outside right upper", fontsize=8)


def _write(figure: Figure, file: Path) -> None:
    kind = file.suffix.lower()
    metadata = {"Date": None} if kind == ".svg" else {"Software": None}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:
            part = Path(folder) / file.name
            figure.savefig(part, format=kind[1:], metadata=metadata)
            part.replace(file)
    except OSError as error:
        rule = f"cannot be written: {error.strerror or error}"
        raise ScenarioError(str(file), [Problem("--output", "", rule)]) from None
