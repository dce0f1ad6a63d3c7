"""Scenario files: what is simulated, read and checked before anything runs.

A scenario is a TOML file; units stand in the names of its keys. :func:`load` returns one frozen
:class:`Scenario` for each variant, with every default filled in, or raises one
:class:`~rcusim.errors.ScenarioError` that lists all problems of the file at once.
"""

from __future__ import annotations

from rcusim.scenario.find import find as find
from rcusim.scenario.find import shipped as shipped
from rcusim.scenario.read import load as load
from rcusim.scenario.read import resolved as resolved
from rcusim.scenario.tables import BurstWorkload as BurstWorkload
from rcusim.scenario.tables import KernelTable as KernelTable
from rcusim.scenario.tables import MachineTable as MachineTable
from rcusim.scenario.tables import NoWorkload as NoWorkload
from rcusim.scenario.tables import RcuscaleWorkload as RcuscaleWorkload
from rcusim.scenario.tables import RcutreeTable as RcutreeTable
from rcusim.scenario.tables import ReadersTable as ReadersTable
from rcusim.scenario.tables import ReclaimTable as ReclaimTable
from rcusim.scenario.tables import RunTable as RunTable
from rcusim.scenario.tables import Scenario as Scenario
from rcusim.scenario.tables import SlabTable as SlabTable
from rcusim.scenario.tables import Workload as Workload

__all__ = [
    "BurstWorkload",
    "KernelTable",
    "MachineTable",
    "NoWorkload",
    "RcuscaleWorkload",
    "RcutreeTable",
    "ReadersTable",
    "ReclaimTable",
    "RunTable",
    "Scenario",
    "SlabTable",
    "Workload",
    "find",
    "load",
    "resolved",
    "shipped",
]
