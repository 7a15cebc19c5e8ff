"""
How many reconciles run at once: as many as the API server keeps up with.

A server that is slower than its callers would have it answers nothing in time: every call runs into
its time-out, is made again, and is worth nothing to anybody. So what is in flight is halved when a
call was too slow, and grows by one for each round of reconciles that were not (the way TCP
shares a line: additive increase, multiplicative decrease, RFC 5681).
"""

from __future__ import annotations


class ConcurrencyLimit:
    """Between 1 and `most` reconciles at once."""

    def __init__(self, most: int, hold_seconds: float) -> None:
        """Start at `most`; after a halving, what was in flight then halves it no further."""
        self._most = most
        self._hold_seconds = hold_seconds
        self._allowed = float(most)
        self._held_until = 0.0

    @property
    def allowed(self) -> int:
        """So many may run now."""
        return int(self._allowed)

    def too_slow(self, now: float) -> bool:
        """Halve, once per `hold_seconds` (`now` is a monotonic time); return whether it did."""
        if now < self._held_until or self._allowed <= 1:
            return False
        self._allowed = max(1.0, self._allowed / 2)
        self._held_until = now + self._hold_seconds
        return True

    def kept_up(self) -> None:
        """Grow by a share that makes one more of `allowed` calls of this."""
        self._allowed = min(self._most, self._allowed + 1 / self._allowed)
