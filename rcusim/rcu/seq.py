"""Arithmetic of grace-period sequence numbers (``rcu_seq_*``, kernel/rcu/rcu.h, 6.18).

A number is an unsigned 64-bit integer: the low two bits are a state (0 idle, 1 a grace period is in
progress), the rest counts. A grace period takes it from 4k over 4k + 1 to 4k + 4. Comparisons are
modular, so that numbers may wrap; the first ones are 300 grace periods before the wrap.

Leaves out memory barriers: steps are atomic and sequentially consistent.
"""

from __future__ import annotations

MASK = (1 << 64) - 1
HALF = MASK >> 1
STATE_MASK = 3
STATE_BITS = 2
GP = 1 << STATE_BITS
INITIAL = -300 * GP & MASK
"""Value of every copy of ``gp_seq`` at boot: 300 grace periods before the wrap."""
GUARD = 2 * GP
"""How far a snapshot may be ahead before ``done_exact`` takes it for an old one."""


def ge(a: int, b: int) -> bool:
    """Return whether `a` is `b` or later (``ULONG_CMP_GE``).

    Examples
    --------
    >>> ge(4, 4), ge(0, 4), ge(0, MASK)
    (True, False, True)
    """
    return (a - b) & MASK <= HALF


def lt(a: int, b: int) -> bool:
    """Return whether `a` is earlier than `b` (``ULONG_CMP_LT``)."""
    return (a - b) & MASK > HALF


def running(s: int) -> bool:
    """Return whether a grace period is in progress (``rcu_seq_state``)."""
    return bool(s & STATE_MASK)


def start(s: int) -> int:
    """Return the number with a grace period begun (``rcu_seq_start``)."""
    return (s + 1) & MASK


def end(s: int) -> int:
    """Return the number with the grace period ended (``rcu_seq_end``)."""
    return ((s | STATE_MASK) + 1) & MASK


def snap(s: int) -> int:
    """Return the earliest number that proves a full grace period from now (``rcu_seq_snap``).

    Examples
    --------
    >>> snap(0), snap(1)  # idle: the next end; running: the end after that
    (4, 8)
    """
    return (s + 2 * STATE_MASK + 1) & ~STATE_MASK & MASK


def started(current: int, s: int) -> bool:
    """Return whether the grace period that ends at `s` has begun (``rcu_seq_started``)."""
    return lt((s - 1) & ~STATE_MASK & MASK, current)


def done(current: int, s: int) -> bool:
    """Return whether snapshot `s` has been reached (``rcu_seq_done``)."""
    return ge(current, s)


def done_exact(current: int, s: int) -> bool:
    """Return the same, but true for a snapshot that is far ahead (``rcu_seq_done_exact``)."""
    return ge(current, s) or lt(current, (s - GUARD) & MASK)


def completed_gp(old: int, new: int) -> bool:
    """Return whether a grace period ended between two numbers (``rcu_seq_completed_gp``)."""
    return lt(old, new & ~STATE_MASK)


def new_gp(old: int, new: int) -> bool:
    """Return whether a grace period started between two numbers (``rcu_seq_new_gp``)."""
    return lt((old + STATE_MASK) & ~STATE_MASK & MASK, new)


def diff(new: int, old: int) -> int:
    """Return how many grace periods lie between two numbers, with an offset (``rcu_seq_diff``).

    Returns
    -------
    int
        0: unchanged; 1: changed, but no full grace period; n >= 2: n - 1 full grace periods.

    Examples
    --------
    >>> diff(1, 0), diff(4, 0), diff(12, 1)
    (1, 2, 3)
    """
    if new == old:
        return 0
    whole = (new & ~STATE_MASK) - ((old + STATE_MASK) & ~STATE_MASK)
    partial = 1 if (new | old) & STATE_MASK else 0
    between = (whole + partial) & MASK
    if ge(STATE_MASK, between):
        return between
    return (between - GP >> STATE_BITS) + 2
