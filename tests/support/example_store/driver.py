"""The example store's driver: one class for triggers and operations, since a request is a request."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from tests.support.example_store.connection import dial_parsed, exchange_once, parse_line

from stepbench.contracts.identity import matching_head
from stepbench.contracts.workload import Kind
from stepbench.drivers.access import AddressBook, choose_endpoint, control_connection, parse_endpoint, unavailable
from stepbench.drivers.preload import preload_keys, preload_records, write_each
from stepbench.model.errors import CONNECTION_CLOSED, CONNECTION_RESET, GARBAGE, NOT_FOUND, connect_error
from stepbench.model.pending import CoroutineRequest
from stepbench.model.request import Change, ChangeBatch, Outcome
from stepbench.wire.connect import ServerAddress
from stepbench.wire.link import LinkedRequest, Links
from stepbench.workload.checks import RecordCheck

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from tests.support.example_store.connection import ParsedConnection

    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.model.request import PendingRequest, Request
    from stepbench.settings import Settings
    from stepbench.wire.answers import Judge
    from stepbench.wire.connect import Dialled

DEFAULT_PORT = 7070
WORDS = frozenset({b"OK", b"VALUE", b"NONE", b"KEYS", b"ERROR"})
"""With which an answer begins."""
MOST_LINE_BYTES = 16 * 1024 * 1024
"""In what the server says; a line without an end must not fill the memory."""


class ExampleDriver:
    """`Driver`, `Warmable` and `Watchable` for the example store; a write's token is its position."""

    def __init__(
        self, spec: TrialSpec, settings: Settings, clock: Clock, *, answer_s: float = 10.0, turn_s: float = 10.0
    ) -> None:
        del settings  # the stack has no server of this store ("" below): the plan has to name one
        self._spec = spec
        self._clock = clock
        self._answer_s = answer_s
        self._turn_s = turn_s
        endpoint = parse_endpoint(choose_endpoint(spec, "", "example"), DEFAULT_PORT)
        self._host, self._port = endpoint.host, endpoint.port
        self._server = f"the example store at {endpoint.host}:{endpoint.port}"
        self._addresses = AddressBook()
        self._links = Links(self._connect, self._clock)
        workload = spec.offered.workload
        self._check = None if workload is None else RecordCheck(workload, spec.tag)
        self._reuses = workload is None or workload.reuse

    async def open(self) -> None:
        """Connect once, which shows that the store answers; that connection is the first client's."""
        await self.close()
        await self._links.open([0])

    async def warm_up(self) -> None:
        """Connect a writer's clients ahead of the load; without reuse, each request does that itself."""
        if self._reuses:
            await self._links.open(range(self._spec.offered.clients_of_writer or 1))

    async def close(self) -> None:
        """End the connections."""
        self._links.close()
        self._links = Links(self._connect, self._clock)

    def prepare_request(self, request: Request) -> PendingRequest:
        """Return one line, which is answered by one line."""
        line = encode(request)
        judge = self._judge_of(request)
        if self._reuses:
            link = self._links[request.client // self._spec.offered.writers]
            return LinkedRequest(link, line, judge)
        return CoroutineRequest(partial(exchange_once, self._find, self._dial, line, judge, self._clock), self._clock)

    async def prepare(self) -> None:
        """Write what is to be there before the load; there is nothing else to make."""
        await self.ready()
        preload = preload_keys if self._spec.offered.workload is None else preload_records
        await preload(self._spec, write_each(self.prepare_request), self._clock, batch=1, lanes=4)

    async def ready(self) -> bool:
        """Return that the store answers: it takes no time to make anything."""
        async with control_connection(self._server, self._dial()) as dialled:
            await self._ask(dialled.connection, b"GET -")
        return True

    async def tear_down(self) -> bool:
        """Delete the trial's keys, as many at a time as the server lists; False once `turn_s` is over."""
        deadline_ns = self._clock.now_ns() + int(self._turn_s * 1e9)
        async with control_connection(self._server, self._dial()) as dialled:
            while True:
                _, *keys = (await self._ask(dialled.connection, b"KEYS " + self._spec.tag.encode())).split(b" ")
                if not keys:
                    return True
                await asyncio.gather(*(self._ask(dialled.connection, b"DELETE " + key) for key in keys))
                if self._clock.now_ns() >= deadline_ns:
                    return False

    def resource_names(self) -> tuple[str, ...]:
        """See `Driver`."""
        return (f"keys {self._spec.tag}*",)

    async def provider(self) -> str:
        """Name the store."""
        await self.ready()
        return "example store 1"

    async def watch(self, from_position: int | None) -> AsyncGenerator[ChangeBatch, None]:
        """Yield the changes whose key has the trial's head, in the order of their positions; WATCHING yields none."""
        try:
            address = await self._find()
            reader, writer = await asyncio.open_connection(address, self._port, limit=MOST_LINE_BYTES)
        except OSError as error:
            raise unavailable(self._server, connect_error(error)) from error
        try:
            after = -1 if from_position is None else from_position
            writer.write(b"WATCH %b %d\n" % (matching_head(self._spec.tag).encode(), after))
            while line := await reader.readline():
                t4_ns = self._clock.now_ns()
                word, position, *content = line.rstrip(b"\n").split(b" ", 2)
                changes = [Change(content[0], int(position))] if word == b"CHANGE" else []
                yield ChangeBatch(t4_ns, changes)
        except OSError as error:
            raise unavailable(self._server, CONNECTION_RESET) from error
        finally:
            writer.close()
        raise unavailable(self._server, CONNECTION_CLOSED)

    def _judge_of(self, request: Request) -> Judge[bytes]:
        if request.kind is not Kind.READ or self._check is None:
            return judge
        return partial(judge_read, self._check, request.key)

    async def _find(self) -> str:
        return await self._addresses.find(self._host, self._port)

    async def _dial(self) -> Dialled[ParsedConnection[bytes]]:
        return await self._addresses.connect(self._host, self._port, self._dial_address)

    async def _dial_address(self, address: str) -> Dialled[ParsedConnection[bytes]]:
        destination = ServerAddress(address, self._port, reset_at_close=not self._reuses)
        return await dial_parsed(
            destination, self._clock, parse_line, answer_s=self._answer_s, answer_bytes=MOST_LINE_BYTES
        )

    async def _connect(self, _client: int = 0) -> ParsedConnection[bytes]:
        return (await self._dial()).connection

    async def _ask(self, connection: ParsedConnection[bytes], line: bytes) -> bytes:
        """Return the answer to one line, which has to be one of this protocol's."""
        answered = await connection.call(line + b"\n")
        if answered.answer is None:
            raise unavailable(self._server, answered.error)
        if answered.answer.partition(b" ")[0] not in WORDS:
            raise unavailable(self._server, GARBAGE)  # another protocol has lines, too
        return answered.answer


def encode(request: Request) -> bytes:
    """Return a request as a line."""
    key = request.key.encode()
    match request.kind:
        case Kind.READ:
            return b"GET %b\n" % key
        case Kind.DELETE:
            return b"DELETE %b\n" % key
        case _:
            return b"PUT %b %b\n" % (key, request.value)


def judge(answer: bytes) -> tuple[Outcome, str, str]:
    """Return what an answer means: the outcome, the token, and the error."""
    word, _, rest = answer.partition(b" ")
    match word:
        case b"OK":
            return Outcome.OK, rest.decode(), ""
        case b"NONE":
            return Outcome.FAILED, "", NOT_FOUND
        case _:
            return Outcome.FAILED, "", rest.decode(errors="replace")


def judge_read(check: RecordCheck, key: str, answer: bytes) -> tuple[Outcome, str, str]:
    """Return what an answer to GET means: a value has to be one of the record's."""
    word, _, value = answer.partition(b" ")
    if word != b"VALUE":
        return judge(answer)
    error = check.read(key, value)
    return Outcome.FAILED if error else Outcome.OK, "", error
