"""Everything that time does not decide goes through one object with `choose`.

Model code never imports `random`. A stream of draws is named, and its values depend on the seed and
the name alone, never on the order in which streams were created.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

import attrs

_MASK = (1 << 64) - 1


class Choices(Protocol):
    """Decides among alternatives; implementations are random, replaying or exhaustive."""

    def choose(self, n: int, why: str) -> int:
        """Return one of ``0 .. n-1`` for the decision named `why`."""
        ...


@attrs.define(eq=False)
class Stream:
    """A SplitMix64 sequence of 64-bit integers (Steele, Lea, Flood 2014), keyed by seed and name."""

    state: int

    @classmethod
    def named(cls, seed: int, name: str) -> Stream:
        """Return the stream that belongs to a seed and a name."""
        key = hashlib.sha256(f"{seed}\0{name}".encode()).digest()
        return cls(int.from_bytes(key[:8], "little"))

    def next(self) -> int:
        """Return the next 64-bit integer."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & _MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)

    def below(self, n: int) -> int:
        """Return an integer in ``0 .. n-1`` (multiply-shift; bias below 2**-32 for n < 2**32)."""
        return (self.next() * n) >> 64


@attrs.define(eq=False)
class SeededChoices:
    """The choices of an ordinary run: one stream for each reason."""

    seed: int
    _streams: dict[str, Stream] = attrs.field(factory=dict)

    def stream(self, why: str) -> Stream:
        """Return the stream of draws named `why`."""
        found = self._streams.get(why)
        if found is None:
            found = self._streams[why] = Stream.named(self.seed, why)
        return found

    def choose(self, n: int, why: str) -> int:
        """Return one of ``0 .. n-1``; a decision with one alternative draws nothing."""
        return self.stream(why).below(n) if n > 1 else 0
