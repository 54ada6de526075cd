"""
The faults that can happen to a request, and the rules by which requests are chosen: pure, no sockets.

Services that are asked too much say so in whole HTTP/1.1 answers, written here as the services write them.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


CutAt = Literal["before-request", "in-request", "before-answer", "in-answer"]


def http_answer(status: str, content_type: str, body: bytes, *headers: str) -> bytes:
    """Return an answer; the connection stays open. `status` such as "503 Slow Down"; `headers` as "Name: value"."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {content_type}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def _dynamodb(kind: str, message: str) -> bytes:
    body = json.dumps({"__type": kind, "message": message}).encode()
    return http_answer("400 Bad Request", "application/x-amz-json-1.0", body)


DYNAMODB_THROTTLING = _dynamodb(
    "com.amazon.coral.availability#ThrottlingException", "Rate of requests exceeds the allowed throughput."
)
DYNAMODB_EXCEEDED = _dynamodb(
    "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
    "The level of configured provisioned throughput for the table was exceeded.",
)
S3_SLOW_DOWN = http_answer(
    "503 Slow Down",
    "application/xml",
    b'<?xml version="1.0" encoding="UTF-8"?>\n'
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message>"
    b"<RequestId>FAULTPROXY</RequestId><HostId>fault-proxy</HostId></Error>",
)
LAMBDA_TOO_MANY = http_answer(
    "429 Too Many Requests",
    "application/json",
    b'{"Reason":"ReservedFunctionConcurrentInvocationLimitExceeded","Type":"User","message":"Rate Exceeded."}',
    "x-amzn-ErrorType: TooManyRequestsException",
)


@dataclass(frozen=True)
class Throttle:
    """HTTP/1.1 only: the proxy answers, and the server never sees the request."""

    answer: bytes = DYNAMODB_THROTTLING

    name: ClassVar[str] = "throttle"


@dataclass(frozen=True)
class Limit:
    """The connection carries so many bytes a second in each direction, from this request on until the next one."""

    bytes_per_s: float

    name: ClassVar[str] = "limit"


@dataclass(frozen=True)
class Delay:
    """The request, its answer, or both are held for a time, and with them all that follows on the connection."""

    request_s: float = 0.0
    answer_s: float = 0.0

    name: ClassVar[str] = "delay"


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
        """The name by which `Stats.faults` counts it."""
        return f"drop {self.part}"


@dataclass(frozen=True)
class Duplicate:
    """HTTP/1.1 only: the server gets the request twice; the second answer is passed on, as a retrying proxy does."""

    name: ClassVar[str] = "duplicate"


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
        """The name by which `Stats.faults` counts it."""
        return f"cut {self.at}"


@dataclass(frozen=True)
class Replace:
    """
    Bytes are others, as many, wherever they come in one piece; what is counted is each piece in which they did.

    part: "request": the server answers rightly what nobody has asked, such as another record's value. "answer": what
        it said arrives altered.
    """

    part: Literal["request", "answer"]
    old: bytes
    new: bytes

    def __post_init__(self) -> None:
        if len(self.old) != len(self.new) or not self.old:
            message = f"{self}: a protocol says how long things are, so that `old` and `new` have one length"
            raise ValueError(message)

    @property
    def name(self) -> str:
        """The name by which `Stats.faults` counts it."""
        return f"replace {self.part}"


Fault = Throttle | Limit | Delay | Drop | Duplicate | Cut | Replace


@dataclass(frozen=True)
class Rule:
    """
    A fault, and the requests that it happens to.

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
        """Return the fault of the next request. Every rule counts every request that matches it, whoever wins."""
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


class Stats(NamedTuple):
    """
    Counts since the proxy began, or since `FaultProxy.forget`.

    connections: accepted. requests: begun by clients. forwarded: sent to the server to the end, copies too.
    answered: answers passed on to the end, the proxy's own too. faults: by the fault's name.
    """

    connections: int
    requests: int
    forwarded: int
    answered: int
    faults: dict[str, int]


class Tally:
    """Counters that one thread writes and another one reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()

    def count(self, what: str) -> None:
        """Count one more of a field of `Stats`."""
        with self._lock:
            self._counts[what] += 1

    def fault(self, name: str) -> None:
        """Count one more fault."""
        with self._lock:
            self._faults[name] += 1

    def read(self) -> Stats:
        """Return all of them at one moment."""
        with self._lock:
            return Stats(
                connections=self._counts["connections"],
                requests=self._counts["requests"],
                forwarded=self._counts["forwarded"],
                answered=self._counts["answered"],
                faults=dict(self._faults),
            )

    def clear(self) -> None:
        """Begin again at 0."""
        with self._lock:
            self._counts.clear()
            self._faults.clear()
