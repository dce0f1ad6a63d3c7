"""Step machines: model logic as plain data and plain methods, driven by a clock or by an explorer.

A :class:`Machine` does what the kernel does under one lock acquisition in one *step*, a method that is
named by the field `at`. Between two steps anything may run. Waiting has one form: sleep until woken,
then look again. A step never schedules: it wakes other machines, which puts them into the *outbox*, and
arms timers; whoever drives the machine delivers both afterwards. No decision of the model reads a
clock; workloads and books read one to measure.

Fields are of two kinds: *state* (int, bool, str, and tuples of these) and *wiring*, set when the world
is built and never after.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, dataclass_transform

import attrs

from rcusim.abc import Hold as Hold  # noqa: PLC0414

T = TypeVar("T")

Price = tuple[int, int]
"""Price of a step: base in ns, and ns for each unit that the step returns."""

WIRING = "wiring"


def wiring(**options: Any) -> Any:  # noqa: ANN401 - as attrs.field
    """Declare a field that is set when the world is built and is no part of its state."""
    return attrs.field(metadata={WIRING: True}, repr=False, **options)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(attrs.field, wiring))
def state(cls: type[T]) -> type[T]:
    """Make an attrs class with slots, keyword-only construction and identity comparison."""
    return attrs.define(eq=False, kw_only=True, slots=True)(cls)


class Level(enum.IntEnum):
    """Where a machine runs on its CPU; a higher level interrupts a lower one."""

    TASK = 0
    SOFTIRQ = 1
    INTERRUPT = 2


@state
class Machine:
    """Something that takes steps.

    Parameters
    ----------
    name : str
        Unique and stable, from construction: ``gp``, ``cpu1/core``.
    outbox : list of Machine
        Shared by all machines of a world: those that were woken or armed since the last delivery.
    prices : mapping of str to Price
        Price of each step; see :func:`step_prices`.
    cpu : int
        The CPU it belongs to or runs on.
    at : str
        Name of the method that is the next step.
    asleep : bool
        Whether it waits to be woken.
    resched : bool
        Whether the step just taken ended at a point where a non-preemptible kernel may switch
        (``cond_resched()`` or equivalent).
    preempt_off : bool
        Whether preemption is disabled (a read-side critical section, for instance).
    might_sleep : bool
        Whether the step passes ``might_sleep()`` again and again, as one does that allocates with
        GFP_KERNEL: a kernel with voluntary preemption may switch at each of these.
    held : list of (Hold, int)
        Locks that the last step held, with ns; emptied by whoever drives the machine.
    """

    STEPS: ClassVar[tuple[str, ...]] = ()
    """Names of the steps that have a price; the first is where a pass begins."""
    level: ClassVar[Level] = Level.TASK

    name: str = wiring()
    outbox: list[Machine] = wiring()
    prices: Mapping[str, Price] = wiring()
    held: list[tuple[Hold, int]] = wiring(factory=list)
    cpu: int = 0
    at: str = ""
    asleep: bool = False
    resched: bool = True
    preempt_off: bool = False
    might_sleep: bool = False

    def step(self) -> int:
        """Take the step named by `at`; return its price in ns."""
        base_ns, unit_ns = self.prices[self.at]
        units: int | None = getattr(self, self.at)()
        return base_ns + unit_ns * units if units else base_ns

    def sleep(self) -> None:
        """Wait until woken."""
        self.asleep = True

    def wake(self) -> None:
        """Make runnable; does nothing for a machine that is awake, as in the kernel."""
        if self.asleep:
            self.asleep = False
            self.outbox.append(self)


@state
class Timer:
    """Wakes somebody later: the only way in which time enters the model.

    Model code arms and cancels; the driver calls :meth:`expire` when the time has come. `delay_jiffies`
    is -1 while the timer is not armed.

    Parameters
    ----------
    name : str
        Unique and stable.
    armed : list of Timer
        Shared by all timers of a world: those armed since the last delivery.
    fire : callable
        What happens; runs in interrupt or softirq context of the CPU that armed the timer.
    deferrable : bool
        Whether an idle CPU may be late: it is not woken for such a timer.
    """

    name: str = wiring()
    armed: list[Timer] = wiring()
    fire: Callable[[], None] = wiring()
    deferrable: bool = wiring(default=False)
    cpu: int = 0
    delay_jiffies: int = -1
    token: int = 0

    @property
    def pending(self) -> bool:
        """Whether the timer is armed."""
        return self.delay_jiffies >= 0

    def arm(self, cpu: int, delay_jiffies: int) -> None:
        """Set the timer on `cpu`; a timer that is pending is moved."""
        self.cpu = cpu
        self.delay_jiffies = delay_jiffies
        self.token += 1
        self.armed.append(self)

    def cancel(self) -> None:
        """Forget the timer if it is pending."""
        self.delay_jiffies = -1
        self.token += 1

    def expire(self) -> None:
        """Let the time have come: disarm, then fire."""
        self.delay_jiffies = -1
        self.fire()


def step_prices(
    table: Mapping[str, Mapping[str, Price]], machine: type[Machine]
) -> dict[str, Price]:
    """Return the prices of a machine class: its own and those of its bases by class name.

    A subclass (a mutant, a user's grace-period thread) inherits the prices of its base.

    Parameters
    ----------
    table : mapping
        Class name to step name to price: the ``[price.*]`` tables of a platform file.
    machine : type
        The class.

    Raises
    ------
    KeyError
        When one of its steps has no price; names class and step.
    """
    prices: dict[str, Price] = {}
    for cls in reversed(machine.__mro__):
        prices.update(table.get(cls.__name__, {}))
    for step in machine.STEPS:
        if step not in prices:
            raise KeyError(f"no price for step {step} of {machine.__name__}")
    return prices
