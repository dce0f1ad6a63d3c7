"""Units of the model: integers only.

Time is nanoseconds, memory is bytes or 4 KiB pages. What people write in milliseconds or MiB is
converted once, at the scenario boundary.
"""

from __future__ import annotations

PAGE_SHIFT = 12
PAGE_SIZE_BYTES = 1 << PAGE_SHIFT
POINTER_BYTES = 8
MIB_BYTES = 1 << 20
PAGES_PER_MIB = MIB_BYTES // PAGE_SIZE_BYTES

US_NS = 1_000
MS_NS = 1_000_000
S_NS = 1_000_000_000


def jiffy_ns(hz: int) -> int:
    """Return the length of a tick period in nanoseconds.

    Examples
    --------
    >>> jiffy_ns(250)
    4000000
    """
    return S_NS // hz
