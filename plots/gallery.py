"""Draws the figures of the README from the shipped scenarios.

Run as ``python plots/gallery.py [NAME ...]``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from rcusim.results.model import Result
from rcusim.scenario import load
from rcusim.simulation import simulate
from rcusim.views.figure import draw

HERE = Path(__file__).parent
FIGURES = ("hikey960", "low-memory", "burst", "readers")


def main() -> None:
    """Run each scenario once, with its own seed, and write ``NAME.png`` beside this file."""
    for name in sys.argv[1:] or FIGURES:
        result = Result(scenario=name, runs=tuple(simulate(scenario) for scenario in load(name)))
        draw(result.runs, HERE / f"{name}.png")


if __name__ == "__main__":
    main()
