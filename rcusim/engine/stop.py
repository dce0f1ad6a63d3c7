"""SIGINT and SIGTERM as a flag: what runs looks at it between steps and ends cleanly.

A second signal is impatience: it raises :class:`KeyboardInterrupt` wherever the program is.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import attrs

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@attrs.define(eq=False)
class StopFlag:
    """Set by a signal.

    Attributes
    ----------
    raised : bool
        Whether one came.
    """

    raised: bool = False

    def is_raised(self) -> bool:
        """Return whether a signal came."""
        return self.raised

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Note a signal."""
        del number, frame
        if self.raised:
            raise KeyboardInterrupt
        self.raised = True


_active: list[StopFlag] = []


@contextmanager
def catching() -> Iterator[StopFlag]:
    """Let signals set a flag for as long as the block runs.

    Within another such block its flag goes on to count, so that a signal between two runs of a
    command is not forgotten. Only the main thread can catch signals; elsewhere the flag stays down.
    """
    if _active:
        yield _active[-1]
        return
    flag = StopFlag()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    before = [signal.signal(number, flag.handle) for number in NUMBERS]
    _active.append(flag)
    try:
        yield flag
    finally:
        _active.pop()
        for number, handler in zip(NUMBERS, before, strict=True):
            signal.signal(number, handler)
