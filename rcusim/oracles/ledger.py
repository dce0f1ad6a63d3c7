"""The exactly-once ledger: every object is allocated, queued and freed once each, in this order.

One integer per address holds the generation, how often the address was handed out, and the state of
the present one. The kernel below is the only code that reads or writes it.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from rcusim._jit import IntArray, grown, integers, kernel
from rcusim.errors import PropertyViolation
from rcusim.probes import Probes

FREE, LIVE, QUEUED = 0, 1, 2
STATES = 4  # a power of two
NAMES = ("free", "live", "queued")


@kernel
def move_all(
    ledger: IntArray, addresses: IntArray, first: int, n: int, step: int, source: int, target: int
) -> int:
    """Move `n` objects from state `source` to `target`; return how many could be."""
    for i in range(n):
        address = addresses[first + i * step]
        if address < 0 or address >= len(ledger):
            return i
        value = ledger[address]
        if value & (STATES - 1) != source:
            return i
        if source == FREE:
            value += STATES
        ledger[address] = value - source + target
    return n


@kernel
def next_in_state(ledger: IntArray, state: int, first: int) -> int:
    """Return the first address from `first` on that is in `state`, or -1."""
    for address in range(first, len(ledger)):
        if ledger[address] & (STATES - 1) == state:
            return address
    return -1


@attrs.define(eq=False)
class Ledger:
    """The ledger of a run.

    Parameters
    ----------
    now_ns : callable
        The clock.
    addresses : callable
        Upper bound of the addresses handed out so far.
    """

    now_ns: Callable[[], int]
    addresses: Callable[[], int]
    cells: IntArray = attrs.field(factory=lambda: integers(0, bits=32))

    def attach(self, probes: Probes) -> None:
        """Listen to every object that is allocated, queued and freed."""
        probes.allocated.subscribe(self.allocated)
        probes.queued.subscribe(self.queued)
        probes.freeing.subscribe(self.freeing)

    def allocated(self, cpu: int, addresses: IntArray, first: int, n: int) -> None:
        """Book `n` new objects."""
        self._move(cpu, addresses, first, n, 1, FREE, LIVE)

    def queued(self, cpu: int, addresses: IntArray, first: int, n: int) -> None:
        """Book `n` live objects as queued."""
        self._move(cpu, addresses, first, n, 1, LIVE, QUEUED)

    def freeing(
        self, cpu: int, addresses: IntArray, first: int, n: int, step: int, newest: int
    ) -> None:
        """Book `n` queued objects as freed."""
        del newest
        self._move(cpu, addresses, first, n, step, QUEUED, FREE)

    def _move(
        self, cpu: int, addresses: IntArray, first: int, n: int, step: int, source: int, target: int
    ) -> None:
        done = move_all(self.cells, addresses, first, n, step, source, target)
        if done < n and len(self.cells) < self.addresses():
            self.cells = grown(self.cells, 2 * self.addresses() + 1024)
            first += done * step
            n -= done
            done = move_all(self.cells, addresses, first, n, step, source, target)
        if done == n:
            return
        address = int(addresses[first + done * step])
        known = 0 <= address < len(self.cells)
        generation, state = divmod(int(self.cells[address]) if known else FREE, STATES)
        verb = ("freed", "allocated", "queued")[target]
        raise PropertyViolation(
            "ledger",
            self.now_ns(),
            f"object {address:#x} (generation {generation}) is {verb} on CPU {cpu} while it is {NAMES[state]}, "
            f"not {NAMES[source]}",
        )

    def in_state(self, state: int) -> list[int]:
        """Return all addresses in a state: slow, for diagnosis and at the end."""
        found: list[int] = []
        address = next_in_state(self.cells, state, 0)
        while address >= 0:
            found.append(int(address))
            address = next_in_state(self.cells, state, address + 1)
        return found
