"""What the HiKey 960 pair depends on: HZ, preemption model, tick skew. Writes a table and a figure.

    python plots/sensitivity.py [--seeds K] [--loops N]

Writes ``sensitivity.csv``, ``sensitivity.md`` and ``sensitivity.png`` beside this file. Prices stay those of the
platform table; nothing is fitted here.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from rcusim.scenario import load
from rcusim.simulation import simulate

HERE = Path(__file__).parent
PUBLISHED = {
    "total_ns": 89947009882 / 102898760401,
    "batches": 6715 / 5822,
    "footprint_mb": 115 / 158,
}
PUBLISHED_BEFORE = {"total_s": 102.898760401, "gp_ms": 102898.760401 / 5822, "footprint_mb": 158}
COLUMNS = [
    "hz", "preempt", "skew_tick", "total_s", "gp_ms", "footprint_mb",
    "total_ratio", "gp_ratio", "footprint_ratio",
]  # fmt: skip


def measure(hz: int, preempt: str, skew_tick: int, seeds: int, loops: int) -> dict[str, object]:
    """Return the medians over seeds for one setting."""
    overrides = [
        f"kernel.hz={hz}", f"kernel.preempt={preempt}", f"kernel.skew_tick={skew_tick}",
        f"workload.kfree_loops={loops}",
    ]  # fmt: skip
    before, after = [], []
    for seed in range(1, seeds + 1):
        for scenario in load("hikey960", overrides, seed=seed):
            line = simulate(scenario).rcuscale
            assert line is not None
            (before if scenario.variant == "baseline_kfree" else after).append(line)
    pairs = list(zip(before, after, strict=True))
    scale = 200_000 / loops

    def median(values: list[float]) -> float:
        return statistics.median(values)

    return {
        "hz": hz,
        "preempt": preempt,
        "skew_tick": skew_tick,
        "total_s": round(median([line.total_ns for line in before]) * scale / 1e9, 2),
        "gp_ms": round(median([line.total_ns / line.batches for line in before]) / 1e6, 2),
        "footprint_mb": round(median([line.footprint_mb for line in before])),
        "total_ratio": round(median([new.total_ns / old.total_ns for old, new in pairs]), 3),
        "gp_ratio": round(median([new.batches / old.batches for old, new in pairs]), 3),
        "footprint_ratio": round(
            median([new.footprint_mb / old.footprint_mb for old, new in pairs]), 3
        ),
    }


def draw(rows: Sequence[Mapping[str, object]], path: Path) -> None:
    """Draw the three ratios of every setting beside the published ones."""
    figure = Figure(figsize=(9, 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    labels = [f"{row['preempt']}, HZ={row['hz']}, skew {row['skew_tick']}" for row in rows]
    panels = (("total_ratio", "total time", "total_ns"), ("gp_ratio", "grace periods", "batches"),
              ("footprint_ratio", "footprint", "footprint_mb"))  # fmt: skip
    for index, (column, title, key) in enumerate(panels):
        axes = figure.add_subplot(1, 3, index + 1)
        values = [float(str(row[column])) for row in rows]
        axes.plot(values, range(len(rows)), "o", color="#0072B2", label="simulated, median")
        axes.axvline(PUBLISHED[key], color="#D55E00", linewidth=1.5, label="published")
        axes.axvline(1, color="0.7", linewidth=0.8, zorder=0)
        axes.set_title(title)
        axes.set_xlabel("bulk blocks / list batching")
        axes.set_yticks(range(len(rows)), labels if index == 0 else [""] * len(rows))
        axes.invert_yaxis()
        axes.grid(axis="x", color="0.9")
        axes.set_axisbelow(True)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def main() -> None:
    """Measure, and write table and figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--loops", type=int, default=2000)
    parser.add_argument("--draw-only", action="store_true", help="draw the table that is there")
    options = parser.parse_args()
    if options.draw_only:
        with (HERE / "sensitivity.csv").open(encoding="utf-8") as file:
            draw(list(csv.DictReader(file)), HERE / "sensitivity.png")
        return
    rows = []
    for preempt in ("none", "voluntary", "full"):
        for hz in (100, 250, 300, 1000):
            for skew_tick in (0, 1):
                rows.append(measure(hz, preempt, skew_tick, options.seeds, options.loops))
                print(rows[-1])  # noqa: T201 - a script
    with (HERE / "sensitivity.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    lines = [
        f"Medians of {options.seeds} seeds, {options.loops} of 200000 loops, total time scaled; ratios are bulk / list of",
        "the same seed. Published: 102.90 s, 17.67 ms, 158 MB; 0.874, 1.153, 0.728.",
        "",
    ]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(str(row[column]) for column in COLUMNS) + " |" for row in rows]
    (HERE / "sensitivity.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw(rows, HERE / "sensitivity.png")


if __name__ == "__main__":
    main()
