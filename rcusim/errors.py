"""Everything that can go wrong, in one tree.

::

    RcusimError
    ├── ScenarioError (ValueError)       a scenario, option or file is not usable        exit 2
    ├── PropertyViolation                a checked property does not hold                exit 1
    ├── LimitReached                     out of memory, time or steps, not asked about   exit 3
    │   ├── Hang                         something is owed and nothing can happen        exit 3
    │   └── Interrupted                  SIGINT or SIGTERM                               exit 3
    └── InternalError                    our mistake, please report                      exit 70

Each class carries the exit code of the command line, so that nothing else has to map them.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs


class RcusimError(Exception):
    """Base of all errors that rcusim raises on purpose."""

    exit_code = 70


@attrs.frozen
class Problem:
    """One thing that is wrong with an input.

    Parameters
    ----------
    path : str
        Where: a dotted key of a scenario (``workload.cpus``), an option or a file name.
    value : str
        The offending value as the user wrote it, or an empty string.
    rule : str
        What would have been right.
    """

    path: str
    value: str
    rule: str

    def __str__(self) -> str:
        value = f" = {self.value}" if self.value else ""
        return f"{self.path}{value}: {self.rule}"


class ScenarioError(RcusimError, ValueError):
    """An input is not usable; all its problems are reported at once."""

    exit_code = 2

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{source}: {problem}" for problem in self.problems))


class PropertyViolation(RcusimError):
    """A checked property does not hold.

    Parameters
    ----------
    rule : str
        Name of the property: ``conservation``, ``ledger``, ``interval law``, ...
    time_ns : int
        Virtual time at which it was noticed.
    what : str
        The object, reader, grace period or part concerned, in words.
    """

    exit_code = 1

    def __init__(self, rule: str, time_ns: int, what: str) -> None:
        self.rule = rule
        self.time_ns = time_ns
        self.what = what
        super().__init__(f"{rule} violated at {time_ns} ns: {what}")


class LimitReached(RcusimError):
    """The run cannot go on: memory, virtual time or steps are used up, or nothing can happen."""

    exit_code = 3


class Hang(LimitReached):
    """Nothing can happen any more although something is owed."""


class Interrupted(LimitReached):
    """A signal asked to stop; what was recorded so far is kept and marked incomplete."""


class InternalError(RcusimError):
    """A mistake in rcusim itself; please report it."""
