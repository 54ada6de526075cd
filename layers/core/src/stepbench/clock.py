"""
Clocks as arguments: integer nanoseconds since the epoch; spans of time; and a clock's offset to a reference, by SNTP.

`asyncio` is imported where it is awaited: it would be half of what a receiver imports, which only reads the time.
Packets and estimate are pure; `measure_offset` is the UDP edge. `sntp_answer` is the reference's side, for the loopback
responder of the embedded run.

Source:
    RFC 5905, sections 7.3 (header), 8 (on-wire protocol); RFC 4330, sections 3 (era 1 from 2036) and 5 (client checks).
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Clock(Protocol):
    """A clock returns the time and can wait."""

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block for so long."""
        ...

    async def sleep_async(self, seconds: float) -> None:
        """Yield to the event loop for so long."""
        ...


class SystemClock:
    """CLOCK_REALTIME: what receivers and control stages use (a sandbox freezes between invocations)."""

    def now_ns(self) -> int:
        """Return CLOCK_REALTIME in nanoseconds."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Block by `time.sleep`."""
        time.sleep(max(0.0, seconds))

    async def sleep_async(self, seconds: float) -> None:
        """Yield by `asyncio.sleep`."""
        import asyncio  # noqa: PLC0415 -- see above

        await asyncio.sleep(max(0.0, seconds))


class AnchoredClock(SystemClock):
    """
    CLOCK_REALTIME read once, then CLOCK_MONOTONIC counted from there: what a writer uses for one slice.

    A step of the real-time clock in the middle of a slice therefore does not tear a latency apart; `drift_ns` at
    the end says how far the two clocks have moved against each other since the anchor.
    """

    def __init__(self) -> None:
        self.anchor()

    def anchor(self) -> None:
        """Read CLOCK_REALTIME anew."""
        self._offset_ns = real_minus_monotonic_ns()

    def now_ns(self) -> int:
        """Return the anchor plus monotonic time since, in nanoseconds."""
        return time.monotonic_ns() + self._offset_ns

    def drift_ns(self) -> int:
        """Return CLOCK_REALTIME minus this clock, in nanoseconds."""
        return real_minus_monotonic_ns() - self._offset_ns


STEP_NS = 10_000_000
"""A clock that differs by more between two comparisons was set: no oscillator or slewing moves it so far."""
_COMPARISONS = 5
"""A process that is interrupted during a comparison sees the clocks apart by half of the interruption."""


def real_minus_monotonic_ns() -> int:
    """Return the difference of both clocks in the shortest of some comparisons."""
    looks = []
    for _ in range(_COMPARISONS):
        before, real, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        looks.append((after - before, real - (before + after) // 2))
    return min(looks)[1]


Time = TypeVar("Time", int, float)


def covered(spans: Iterable[tuple[Time, Time]]) -> Time | int:
    """Return how much time spans cover together: where they overlap it counts once. 0 if there are none."""
    total: Time | int = 0
    reached: Time | None = None
    for begin, end in sorted(spans):
        first = begin if reached is None else max(begin, reached)
        total += max(0, end - first)
        reached = end if reached is None else max(end, reached)
    return total


ROUNDS = 8
TIMEOUT_S = 0.25
MAX_LOST = 2
"""If more answers are lost, the reference counts as absent: no sandbox waits longer than 0.5 s for it."""

_HEADER = struct.Struct("!BBbb11I")
_CLIENT_V4 = 0x23
_SERVER_V4 = 0x24
_SERVER_MODE = 4
_MODE_MASK = 0x07
_LEAP_SHIFT = 6
_UNSYNCHRONISED = 3
_STRATA = range(1, 16)
_UNIX_EPOCH_S = 2_208_988_800
_ERA_S = 1 << 32
_SECOND_NS = 1_000_000_000


class SntpExchange(NamedTuple):
    """Four times, ns since the epoch: asked and answered by our clock, received and sent by the reference's."""

    asked_ns: int
    received_ns: int
    sent_ns: int
    answered_ns: int

    @property
    def round_trip_ns(self) -> int:
        """Return the time on the wire, both ways."""
        return (self.answered_ns - self.asked_ns) - (self.sent_ns - self.received_ns)


class ClockOffset(NamedTuple):
    """Our clock minus the reference's, within plus or minus `bound_ns` (half the round trip)."""

    offset_ns: int
    bound_ns: int


def estimate_offset(exchanges: Sequence[SntpExchange]) -> ClockOffset | None:
    """Return the offset by the exchange with the smallest round trip; None without any."""
    if not exchanges:
        return None
    best = min(exchanges, key=lambda exchange: exchange.round_trip_ns)
    twice = (best.asked_ns - best.received_ns) + (best.answered_ns - best.sent_ns)
    return ClockOffset(offset_ns=twice // 2, bound_ns=max(0, (best.round_trip_ns + 1) // 2))


def sntp_request(now_ns: int) -> bytes:
    """Build a client's packet; the time in it comes back in the answer and shows to which question it belongs."""
    return _HEADER.pack(_CLIENT_V4, 0, 0, 0, *(0,) * 9, *_to_ntp(now_ns))


def sntp_answer(packet: bytes, received_ns: int, now_ns: int) -> bytes | None:
    """Build the reference's answer to a client's packet; None for anything else."""
    if len(packet) < _HEADER.size:
        return None
    asked = _HEADER.unpack(packet[: _HEADER.size])[-2:]
    return _HEADER.pack(
        _SERVER_V4, 1, 0, -20, 0, 0, 0, *_to_ntp(now_ns), *asked, *_to_ntp(received_ns), *_to_ntp(now_ns)
    )


def read_answer(question: bytes, packet: bytes) -> tuple[int, int] | None:
    """Return when the reference received and sent, ns since the epoch; None if this is no good answer."""
    if len(packet) < _HEADER.size:
        return None
    first, stratum, _, _, *words = _HEADER.unpack(packet[: _HEADER.size])
    if first & _MODE_MASK != _SERVER_MODE or first >> _LEAP_SHIFT == _UNSYNCHRONISED or stratum not in _STRATA:
        return None  # stratum 0 is a "kiss of death": asked too often
    if tuple(words[5:7]) != _HEADER.unpack(question)[-2:]:
        return None
    return _from_ntp(words[7], words[8]), _from_ntp(words[9], words[10])


def measure_offset(reference: str, clock: Clock) -> ClockOffset | None:
    """
    Ask the reference (`host:port`) `ROUNDS` times.

    Returns:
        The estimate, or None where there is no reference or it does not answer: the offset is then unmeasured.
    """
    host, _, port = reference.rpartition(":")
    if not host or not port.isdecimal():
        return None
    exchanges: list[SntpExchange] = []
    lost = 0
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
            wire.settimeout(TIMEOUT_S)
            wire.connect((host, int(port)))
            while len(exchanges) < ROUNDS and lost < MAX_LOST:
                exchange = _exchange(wire, clock)
                if exchange is None:
                    lost += 1
                else:
                    exchanges.append(exchange)
    except (OSError, OverflowError):
        pass  # nobody there: what was measured so far is as good as it is
    return estimate_offset(exchanges)


def _exchange(wire: socket.socket, clock: Clock) -> SntpExchange | None:
    asked_ns = clock.now_ns()
    question = sntp_request(asked_ns)
    asked_ns = clock.now_ns()
    wire.send(question)
    try:
        packet = wire.recv(512)
    except TimeoutError:
        return None
    answered_ns = clock.now_ns()
    times = read_answer(question, packet)
    return None if times is None else SntpExchange(asked_ns, *times, answered_ns)


def _to_ntp(unix_ns: int) -> tuple[int, int]:
    seconds, ns = divmod(unix_ns, _SECOND_NS)
    return (seconds + _UNIX_EPOCH_S) % _ERA_S, (ns << 32) // _SECOND_NS


def _from_ntp(seconds: int, fraction: int) -> int:
    era = 0 if seconds >> 31 else _ERA_S
    return (seconds + era - _UNIX_EPOCH_S) * _SECOND_NS + ((fraction * _SECOND_NS + (1 << 31)) >> 32)
