"""What can go wrong with a request, and which requests it happens to: pure, no sockets."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from stepbench.testing.fault_proxy.throttling import DYNAMODB_THROTTLING

if TYPE_CHECKING:
    from collections.abc import Sequence

CutAt = Literal["before-request", "in-request", "before-answer", "in-answer"]


@dataclass(frozen=True)
class Throttle:
    """HTTP/1.1 only: the proxy answers, and the server never sees the request."""

    answer: bytes = DYNAMODB_THROTTLING

    @property
    def name(self) -> str:
        """As `Stats.faults` counts it."""
        return "throttle"


@dataclass(frozen=True)
class Limit:
    """From this request on until the next one, the connection carries so many bytes a second in each direction."""

    bytes_per_s: float

    @property
    def name(self) -> str:
        """As `Stats.faults` counts it."""
        return "limit"


@dataclass(frozen=True)
class Delay:
    """The request, its answer, or both are held for a time, and with them all that follows on the connection."""

    request_s: float = 0.0
    answer_s: float = 0.0

    @property
    def name(self) -> str:
        """As `Stats.faults` counts it."""
        return "delay"


@dataclass(frozen=True)
class Drop:
    """
    A black hole: the connection stays open, and carries nothing any more.

    part: "request": the server never sees it. "answer": the server acts on it and on all that follow, and nobody
        hears of it.
    """

    part: Literal["request", "answer"]

    @property
    def name(self) -> str:
        """As `Stats.faults` counts it."""
        return f"drop {self.part}"


@dataclass(frozen=True)
class Duplicate:
    """HTTP/1.1 only: the server gets the request twice; the second answer is passed on, as a retrying proxy does."""

    @property
    def name(self) -> str:
        """As `Stats.faults` counts it."""
        return "duplicate"


@dataclass(frozen=True)
class Cut:
    """
    The connection ends.

    at: "before-request": the proxy has seen it, the server gets none of it. "in-request": the server gets the first
        `after_bytes`. "before-answer": the server has answered, the client gets none of it. "in-answer": the client
        gets the first `after_bytes` of it.
    how: "rst" (a reset) or "fin" (an orderly close), as the client sees it.
    """

    at: CutAt
    how: Literal["rst", "fin"] = "rst"
    after_bytes: int = 8

    @property
    def name(self) -> str:
        """As `Stats.faults` counts it."""
        return f"cut {self.at}"


Fault = Throttle | Limit | Delay | Drop | Duplicate | Cut


@dataclass(frozen=True)
class Rule:
    """
    Which requests a fault happens to.

    match: only requests whose first bytes (the HTTP head, the first frame or message) contain this.
    from_nth: the first of the matching requests, from 1, counted since the rule was set.
    share, seed: each of them by a coin with this probability; the same seed gives the same ones.
    times: at most so often; None: for ever.
    """

    fault: Fault
    match: bytes = b""
    from_nth: int = 1
    share: float = 1.0
    seed: int = 0
    times: int | None = None

    def __post_init__(self) -> None:
        if self.from_nth < 1 or not 0 <= self.share <= 1 or (self.times is not None and self.times < 0):
            message = f"{self}: from_nth begins at 1, share is in [0, 1], and times is not negative"
            raise ValueError(message)


class Chooser:
    """Applies rules to requests in the order in which they come; of several rules the first that fits wins."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._turns = [_Turn(rule) for rule in rules]

    def choose(self, first_bytes: bytes) -> Fault | None:
        """The fault of the next request. Every rule counts every request that matches it, whoever wins."""
        fitting = [turn for turn in self._turns if turn.fits(first_bytes)]
        if not fitting:
            return None
        fitting[0].done += 1
        return fitting[0].rule.fault


class _Turn:
    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.done = 0
        self._seen = 0
        self._coin = random.Random(rule.seed)  # noqa: S311 -- repeatable on purpose

    def fits(self, first_bytes: bytes) -> bool:
        if self.rule.match not in first_bytes:
            return False
        self._seen += 1
        if self._seen < self.rule.from_nth:
            return False
        heads = self._coin.random() < self.rule.share
        return heads and (self.rule.times is None or self.done < self.rule.times)
