"""
The results table: leases, flags, heartbeats, pointers, clock samples, t4 items, malformed events.

One class, because all of it is one table; each method is one or two requests. Item shapes:

    lease         pk leases          sk <target>      tag run_id trial execution_arn taken_at_ns
    flags         pk trial#<tag>     sk cancelled | stop-watching | …      reason at_ns
    stop          pk trial#<tag>     sk stop-at#<pp>  stop_at_ns
    heartbeat     pk trial#<tag>     sk heartbeat#…   at_ns progress ended; a watch's also its start
    started       pk trial#<tag>     sk started#…     at_ns
    map's end     pk trial#<tag>     sk map-ended#…   at
    missing       pk trial#<tag>     sk missing#…     error cause
    column file   pk trial#<tag>     sk file#…#<n>    key rows expected last_t2_ns; of an invocation also its body
    clock         pk trial#<tag>     sk clock#…       offset_ns bound_ns
    lines         pk lines#<tag>#<nn>   sk <t5>#<request id>#<part>   lines; put by a measured function's layer
    t4            pk t4#<tag>#<nn>   sk <request id>#<t4>   n entries tokens sandbox cold init_ns batch source
    malformed     pk malformed#<s>   sk <t4>#<request id>#<i>   body
    tasks of DAGs                    see `dag_rows`
"""

from __future__ import annotations

import time
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from boto3.dynamodb.conditions import Attr, Key
from boto3.dynamodb.transform import TransformationInjector
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.errors import TargetBusyError
from stepbench.records.storage import layout
from stepbench.records.storage.layout import ClockSample
from stepbench.records.storage.run_store import query_items, unavailable
from stepbench.records.storage.t4_store import RecordTable
from stepbench.wire.http1.boto import bounded_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from boto3 import Session
    from boto3.dynamodb.conditions import ConditionBase
    from botocore.config import Config
    from mypy_boto3_dynamodb.service_resource import Table

    from stepbench.contracts.plan import TrialRef
    from stepbench.records.storage.shards import ShardReader

Item = dict[str, Any]
ALL_SHARDS = range(layout.T4_SHARDS)


class Lease(NamedTuple):
    """A trial's hold on a target."""

    target: str
    tag: str
    run_id: str
    trial: int
    execution_arn: str
    taken_at_ns: int

    def __str__(self) -> str:
        """Name the holder, by the trial's number as users see it, from 1."""
        return f"trial {self.trial + 1} of run {self.run_id}"


class FilePointer(NamedTuple):
    """A column file: where, how many rows, how many of their events have to arrive, the last acknowledgement."""

    attempt_id: str
    flush: int
    key: str
    rows: int
    expected: int
    last_t2_ns: int


def dynamodb_table(session: Session, name: str, config: Config, endpoint: str | None = None) -> Table:
    """
    Open a DynamoDB table that several threads may use at once.

    boto3 builds the conditions of all calls with one builder, which it resets at each call: a query beside another
    thread's call went out without its partition key. Here each call has a builder of its own, and boto3's finds the
    conditions built.
    """
    resource = session.resource("dynamodb", endpoint_url=endpoint, config=config)
    events = bounded_client(resource.meta.client).meta.events

    def build_conditions(params: dict[str, Any], model: Any, **_: object) -> None:  # noqa: ANN401 -- botocore's
        TransformationInjector().inject_condition_expressions(params, model)

    events.register_first("before-parameter-build.dynamodb", build_conditions)
    return resource.Table(name)


class TrialTable(RecordTable):
    """The results table of one stack. `shards` reads t4 items side by side; without it they come shard by shard."""

    def __init__(self, table: Table, ttl_days: int = 30, shards: Callable[[], ShardReader] | None = None) -> None:
        self._table = table
        self._ttl_s = ttl_days * 86_400
        self._shards = shards

    def take_lease(self, target: str, ref: TrialRef, execution_arn: str, now_ns: int) -> None:
        """
        Take the target for a trial; taking it again for the same trial is fine.

        Raises:
            TargetBusyError: another trial holds it.
        """
        held = Lease(target, ref.tag, ref.run_id, ref.trial, execution_arn, now_ns)._asdict()
        item = {"pk": layout.LEASES_PK, "sk": held.pop("target"), **held}
        if not self._put_if(Attr("pk").not_exists() | Attr("tag").eq(ref.tag), item):
            holder = self.find_lease(target) or "another trial"
            message = f"{target} is leased to {holder}; wait, or run `stepbench sweep` if that is over"
            raise TargetBusyError(message)

    def find_lease(self, target: str) -> Lease | None:
        """Return the lease of the target, if anybody holds it."""
        item = self._get(layout.LEASES_PK, target)
        return None if item is None else _lease(item)

    def leases(self) -> list[Lease]:
        """Return all leases that are held."""
        return [_lease(item) for item in self._query(layout.LEASES_PK)]

    def release_lease(self, target: str, tag: str) -> bool:
        """Give the target back; False if this trial does not hold it."""
        key = {"pk": layout.LEASES_PK, "sk": target}
        return self._holds(lambda: self._table.delete_item(Key=key, ConditionExpression=Attr("tag").eq(tag)))

    def note_left(self, lost: Lease) -> None:
        """Put on record that a trial which has lost this lease left something in the target."""
        self._put({"pk": layout.LEFT_PK, "sk": layout.left_sk(lost.target, lost.tag), **lost._asdict()})

    def left(self, target: str | None = None) -> list[Lease]:
        """Return the lost leases of trials that left something, of one target or of all."""
        prefix = layout.left_sk(target) if target else ""
        return [_lease({**item, "sk": item["target"]}) for item in self._query(layout.LEFT_PK, prefix)]

    def forget_left(self, lost: Lease) -> None:
        """Take off the record what is removed, or has its lease again."""
        key = {"pk": layout.LEFT_PK, "sk": layout.left_sk(lost.target, lost.tag)}
        self._guard(lambda: self._table.delete_item(Key=key))

    def flag(self, tag: str, flag: str) -> str | None:
        """Return the reason for which the flag is set, or None."""
        item = self._get(layout.trial_pk(tag), flag)
        return None if item is None else str(item.get("reason", ""))

    def set_stop(self, tag: str, phase: int, stop_at_ns: int) -> None:
        """Fix where a phase ends. What is fixed already stays, since writers may have seen it."""
        item = {"pk": layout.trial_pk(tag), "sk": f"{layout.STOP_AT}{phase:02x}", "stop_at_ns": stop_at_ns}
        self._put_if(Attr("pk").not_exists(), item)

    def stop_at_ns(self, tag: str, phase: int) -> int | None:
        """Return where a phase ends, or None: as planned."""
        item = self._get(layout.trial_pk(tag), f"{layout.STOP_AT}{phase:02x}")
        return None if item is None else int(item["stop_at_ns"])

    def stops_ns(self, tag: str) -> dict[int, int]:
        """Return where phases end that end before they were planned to."""
        items = self._query(layout.trial_pk(tag), layout.STOP_AT)
        return {int(str(item["sk"]).removeprefix(layout.STOP_AT), 16): int(item["stop_at_ns"]) for item in items}

    def beats(self, tag: str) -> dict[str, Item]:
        """Read the latest sign of life by sender: `at_ns`, `progress`, and `ended` where it has ended."""
        items = self._query(layout.trial_pk(tag), layout.HEARTBEAT)
        return {str(item["sk"]).removeprefix(layout.HEARTBEAT): item for item in items}

    def mark_started(self, tag: str, attempt_id: str) -> None:
        """Mark an attempt that is about to offer load."""
        self.put_of_trial(tag, layout.STARTED + attempt_id, at_ns=time.time_ns())

    def started(self, tag: str, prefix: str = "", since_ns: int = 0) -> list[str]:
        """Read which attempts got as far as offering load: all, those whose id begins so, those that did since then."""
        items = self._query(layout.trial_pk(tag), layout.STARTED + prefix)
        return [str(item["sk"]).removeprefix(layout.STARTED) for item in items if int(item["at_ns"]) >= since_ns]

    def missing_writers(self, tag: str) -> dict[tuple[int, int, int], tuple[str, str]]:
        """Read error and cause of what the state machine gave up, by phase, writer and slice."""
        found = {}
        for item in self._query(layout.trial_pk(tag), layout.MISSING):
            phase, writer, slice_ = map(int, str(item["sk"]).removeprefix(layout.MISSING).split("-"))
            found[phase, writer, slice_] = (str(item["error"]), str(item["cause"]))
        return found

    def map_ends(self, tag: str) -> dict[int, str]:
        """Read when Maps of invocations had ended, by phase, in ISO 8601."""
        items = self._query(layout.trial_pk(tag), layout.MAP_ENDED)
        return {int(str(item["sk"]).removeprefix(layout.MAP_ENDED)): str(item["at"]) for item in items}

    def add_file(self, tag: str, pointer: FilePointer, body: bytes | None = None) -> None:
        """Point to a column file that is in the bucket; or keep one here, so small that it fits into the item."""
        attempt_id, flush, *values = pointer
        attributes = dict(zip(FilePointer._fields[2:], values, strict=True)) | ({"body": body} if body else {})
        self.put_of_trial(tag, f"{layout.FILE}{attempt_id}#{flush:06d}", **attributes)

    def kept_files(self, tag: str) -> Iterator[tuple[str, bytes]]:
        """Yield the column files that are here and not in the bucket, each with the key that it would have there."""
        for item in self._query(layout.trial_pk(tag), layout.FILE):
            if "body" in item:
                yield str(item["key"]), bytes(item["body"])

    def files(self, tag: str) -> list[FilePointer]:
        """Return all column files of the trial, by attempt and flush."""
        return [_pointer(item) for item in self._query(layout.trial_pk(tag), layout.FILE)]

    def clocks(self, tag: str) -> list[ClockSample]:
        """Return all measured offsets of the trial."""
        return [_clock(item) for item in self._query(layout.trial_pk(tag), layout.CLOCK)]

    def set_position(self, tag: str, position: int) -> None:
        """Note that everything up to this watch position is recorded. The position never moves back."""
        item = {"pk": layout.trial_pk(tag), "sk": layout.POSITION, "position": position}
        self._put_if(Attr("pk").not_exists() | Attr("position").lt(position), item)

    def position(self, tag: str) -> int | None:
        """Return the last recorded watch position, or None."""
        item = self._get(layout.trial_pk(tag), layout.POSITION)
        return None if item is None else int(item["position"])

    def t4_items(self, tag: str, shards: Iterable[int] = ALL_SHARDS, attributes: str = "") -> Iterator[Item]:
        """Return the t4 items of the trial, in no order, with all attributes or these; or those of some shards."""
        return self.rows([layout.t4_pk(tag, shard) for shard in shards], attributes)

    def rows(self, partitions: Sequence[str], attributes: str = "") -> Iterator[Item]:
        """Return all items of some partitions, in no order, with all attributes or these."""
        if self._shards is not None:
            return self._shards().items(partitions, attributes)
        projection = {"ProjectionExpression": attributes} if attributes else {}
        return chain.from_iterable(self._query(each, **projection) for each in partitions)

    def t4_count(self, tag: str, shards: Iterable[int] = ALL_SHARDS, since_ns: int = 0) -> int:
        """Return how many entries the items since then hold, duplicates and canaries included; or of some shards."""
        items = self.t4_items(tag, shards, "n, sk" if since_ns else "n")
        return sum(int(item["n"]) for item in items if not since_ns or layout.t4_ns_of(item["sk"]) >= since_ns)

    def function_lines(self, tag: str, since_ns: int) -> Iterator[tuple[int, str]]:
        """Return what a measured function's layer has put of invocations that ended since then: t5, and the lines."""
        for shard in ALL_SHARDS:
            span = Key("sk").between(layout.lines_since(since_ns), "~")
            for item in self._pages(Key("pk").eq(layout.lines_pk(tag, shard)) & span):
                yield layout.lines_t5_ns(str(item["sk"])), str(item["lines"])

    def put_row(self, pk: str, sk: str, attributes: Mapping[str, Any]) -> None:
        """See `RecordTable`."""
        self._put({"pk": pk, "sk": sk, **attributes})

    def malformed(self, store: str, from_ns: int, to_ns: int) -> list[Item]:
        """Return malformed events of a store that came in a span of time."""
        span = Key("sk").between(f"{from_ns:020d}", f"{to_ns:020d}~")
        return list(self._pages(Key("pk").eq(layout.malformed_pk(store)) & span))

    def _put(self, item: Item, **kwargs: Any) -> None:  # noqa: ANN401 -- passed through
        expires = int(time.time()) + self._ttl_s
        self._guard(lambda: self._table.put_item(Item={**item, "expires_at": expires}, **kwargs))

    def _put_if(self, condition: ConditionBase, item: Item) -> bool:
        """Put an item if the condition holds for what is there; return whether it did."""
        return self._holds(lambda: self._put(item, ConditionExpression=condition))

    def _holds(self, call: Callable[[], Any]) -> bool:
        """Make a call with a condition, and return whether the condition held."""
        try:
            self._guard(call)
        except ClientError:  # `_guard` lets through no other than a condition that does not hold
            return False
        return True

    def _get(self, pk: str, sk: str) -> Item | None:
        answer = self._guard(lambda: self._table.get_item(Key={"pk": pk, "sk": sk}, ConsistentRead=True))
        found: Item | None = answer.get("Item")
        return found

    def _query(self, pk: str, sk_prefix: str = "", **kwargs: Any) -> Iterator[Item]:  # noqa: ANN401 -- passed through
        condition = Key("pk").eq(pk)
        return self._pages(condition & Key("sk").begins_with(sk_prefix) if sk_prefix else condition, **kwargs)

    def _pages(self, condition: Any, **kwargs: Any) -> Iterator[Item]:  # noqa: ANN401 -- boto3 condition
        wanted = {"KeyConditionExpression": condition, "ConsistentRead": True, **kwargs}
        return query_items(lambda page: self._guard(partial(self._table.query, **page)), wanted)

    def _guard(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 -- whatever boto3 answers
        try:
            return call()
        except (BotoCoreError, ClientError) as error:
            if isinstance(error, ClientError) and error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                raise
            message = f"results table {self._table.name}: {error}"
            raise unavailable(message, error) from error


def _lease(item: Item) -> Lease:
    target, tag, run_id, execution_arn = (str(item[name]) for name in ("sk", "tag", "run_id", "execution_arn"))
    return Lease(target, tag, run_id, int(item["trial"]), execution_arn, int(item["taken_at_ns"]))


def _pointer(item: Item) -> FilePointer:
    attempt, _, flush = str(item["sk"]).removeprefix(layout.FILE).rpartition("#")
    return FilePointer(attempt, int(flush), str(item["key"]), *(int(item[name]) for name in FilePointer._fields[3:]))


def _clock(item: Item) -> ClockSample:
    role, sandbox, at_ns = str(item["sk"]).removeprefix(layout.CLOCK).split("#")
    return ClockSample(role, sandbox, int(at_ns), int(item["offset_ns"]), int(item["bound_ns"]))
