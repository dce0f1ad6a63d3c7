"""Running a scenario: build the world, let time pass, keep what was seen."""

from rcusim.simulation.run import simulate
from rcusim.simulation.world import Parts, World, build

__all__ = ["Parts", "World", "build", "simulate"]
