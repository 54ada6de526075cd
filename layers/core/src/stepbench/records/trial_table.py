"""
The results table: leases, flags, heartbeats, pointers, clock samples, t4 items, malformed events.

One class, because all of it is one table; each method is one or two requests. Item shapes:

    lease         pk leases          sk <target>      tag run_id trial execution_arn taken_at_ns
    flags         pk trial#<tag>     sk cancelled | stop-watching          reason at_ns
    stop          pk trial#<tag>     sk stop-at#<pp>  stop_at_ns
    heartbeat     pk trial#<tag>     sk heartbeat#…   at_ns progress
    started       pk trial#<tag>     sk started#…     at_ns
    column file   pk trial#<tag>     sk file#…#<n>    key rows expected last_t2_ns
    clock         pk trial#<tag>     sk clock#…       offset_ns bound_ns
    t4            pk t4#<tag>#<nn>   sk <request id>#<t4>   n entries tokens sandbox cold init_ns batch source
    malformed     pk malformed#<s>   sk <t4>#<request id>#<i>   body
"""

from __future__ import annotations

import time
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from boto3.dynamodb.conditions import Attr, Key
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.errors import RecordsUnavailableError, TargetBusyError
from stepbench.records import layout
from stepbench.records.clock_sample import ClockSample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_dynamodb.service_resource import Table

    from stepbench.contracts.tasks import TrialRef
    from stepbench.records.shards import ShardReader

Item = dict[str, Any]


class Lease(NamedTuple):
    """Who holds a target."""

    target: str
    tag: str
    run_id: str
    trial: int
    execution_arn: str
    taken_at_ns: int


class FilePointer(NamedTuple):
    """A column file: where, how many rows, how many of their events have to arrive, the last acknowledgement."""

    attempt_id: str
    flush: int
    key: str
    rows: int
    expected: int
    last_t2_ns: int


class TrialTable:
    """The results table of one stack. `shards` reads t4 items side by side; without it they come shard by shard."""

    def __init__(self, table: Table, ttl_days: int = 30, shards: Callable[[], ShardReader] | None = None) -> None:
        self._table = table
        self._ttl_s = ttl_days * 86_400
        self._shards = shards

    # --- leases ---------------------------------------------------------------------------------------------

    def take_lease(self, target: str, ref: TrialRef, execution_arn: str, now_ns: int) -> None:
        """
        Take the target for a trial; taking it again for the same trial is fine.

        Raises:
            TargetBusyError: another trial holds it.
        """
        item = {
            "pk": layout.LEASES_PK,
            "sk": target,
            "tag": ref.tag,
            "run_id": ref.run_id,
            "trial": ref.trial,
            "execution_arn": execution_arn,
            "taken_at_ns": now_ns,
        }
        try:
            self._put(item, ConditionExpression=Attr("pk").not_exists() | Attr("tag").eq(ref.tag))
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            holder = self.find_lease(target)
            by = f"trial {holder.trial} of run {holder.run_id}" if holder else "another trial"
            message = f"target {target} is leased to {by}; wait for it, or run the sweeper"
            raise TargetBusyError(message) from error

    def find_lease(self, target: str) -> Lease | None:
        """Who holds the target, if anybody."""
        item = self._get(layout.LEASES_PK, target)
        return None if item is None else _lease(target, item)

    def leases(self) -> list[Lease]:
        """All leases that are held."""
        return [_lease(str(item["sk"]), item) for item in self._query(layout.LEASES_PK)]

    def release_lease(self, target: str, tag: str) -> bool:
        """Give the target back; False if this trial does not hold it."""
        key = {"pk": layout.LEASES_PK, "sk": target}
        try:
            self._guard(lambda: self._table.delete_item(Key=key, ConditionExpression=Attr("tag").eq(tag)))
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            return False
        return True

    # --- flags and signs of life ----------------------------------------------------------------------------

    def set_flag(self, tag: str, flag: str, reason: str) -> None:
        """Set `layout.CANCELLED` or `layout.STOP_WATCHING`."""
        self._put({"pk": layout.trial_pk(tag), "sk": flag, "reason": reason, "at_ns": time.time_ns()})

    def flag(self, tag: str, flag: str) -> str | None:
        """The reason for which the flag is set, or None."""
        item = self._get(layout.trial_pk(tag), flag)
        return None if item is None else str(item.get("reason", ""))

    def set_stop(self, tag: str, phase: int, stop_at_ns: int) -> None:
        """Fix where a phase ends. What is fixed already stays, since writers may have seen it."""
        item = {"pk": layout.trial_pk(tag), "sk": f"{layout.STOP_AT}{phase:02x}", "stop_at_ns": stop_at_ns}
        try:
            self._put(item, ConditionExpression=Attr("pk").not_exists())
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise

    def stop_at_ns(self, tag: str, phase: int) -> int | None:
        """Where a phase ends, or None: as planned."""
        item = self._get(layout.trial_pk(tag), f"{layout.STOP_AT}{phase:02x}")
        return None if item is None else int(item["stop_at_ns"])

    def stops_ns(self, tag: str) -> dict[int, int]:
        """Where phases end that end before they were planned to."""
        items = self._query(layout.trial_pk(tag), layout.STOP_AT)
        return {int(str(item["sk"]).removeprefix(layout.STOP_AT), 16): int(item["stop_at_ns"]) for item in items}

    def beat(self, tag: str, who: str, progress: dict[str, int]) -> None:
        """Sign of life of `writer#<attempt id>` or `watcher#<lane>`, with counters."""
        self._put(
            {"pk": layout.trial_pk(tag), "sk": layout.HEARTBEAT + who, "at_ns": time.time_ns(), "progress": progress}
        )

    def end_beat(self, tag: str, who: str, progress: dict[str, int]) -> None:
        """Last sign of life: ended in good order."""
        item = {"pk": layout.trial_pk(tag), "sk": layout.HEARTBEAT + who, "at_ns": time.time_ns()}
        self._put({**item, "progress": progress, "ended": True})

    def beats(self, tag: str) -> dict[str, Item]:
        """Latest sign of life by sender: `at_ns`, `progress`, and `ended` where it has ended."""
        items = self._query(layout.trial_pk(tag), layout.HEARTBEAT)
        return {str(item["sk"]).removeprefix(layout.HEARTBEAT): item for item in items}

    def mark_started(self, tag: str, attempt_id: str) -> None:
        """An attempt is about to offer load."""
        self._put({"pk": layout.trial_pk(tag), "sk": layout.STARTED + attempt_id, "at_ns": time.time_ns()})

    def started(self, tag: str, prefix: str = "") -> list[str]:
        """Attempts that got as far as offering load; with a prefix, only those whose id begins with it."""
        items = self._query(layout.trial_pk(tag), layout.STARTED + prefix)
        return [str(item["sk"]).removeprefix(layout.STARTED) for item in items]

    # --- column files ---------------------------------------------------------------------------------------

    def add_file(self, tag: str, pointer: FilePointer) -> None:
        """Point to a column file that is in the bucket."""
        sk = f"{layout.FILE}{pointer.attempt_id}#{pointer.flush:06d}"
        rest = {
            "key": pointer.key,
            "rows": pointer.rows,
            "expected": pointer.expected,
            "last_t2_ns": pointer.last_t2_ns,
        }
        self._put({"pk": layout.trial_pk(tag), "sk": sk, **rest})

    def files(self, tag: str) -> list[FilePointer]:
        """All column files of the trial, by attempt and flush."""
        return [_pointer(item) for item in self._query(layout.trial_pk(tag), layout.FILE)]

    # --- clocks and positions -------------------------------------------------------------------------------

    def add_clock(self, tag: str, sample: ClockSample) -> None:
        """Keep one measured offset."""
        self._put({"pk": layout.trial_pk(tag), "sk": sample.sort_key, **sample.attributes})

    def clocks(self, tag: str) -> list[ClockSample]:
        """All measured offsets of the trial."""
        return [_clock(item) for item in self._query(layout.trial_pk(tag), layout.CLOCK)]

    def set_position(self, tag: str, position: int) -> None:
        """Everything up to this watch position is recorded. Never moves back."""
        try:
            self._put(
                {"pk": layout.trial_pk(tag), "sk": layout.POSITION, "position": position},
                ConditionExpression=Attr("pk").not_exists() | Attr("position").lt(position),
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise

    def position(self, tag: str) -> int | None:
        """The last recorded watch position, or None."""
        item = self._get(layout.trial_pk(tag), layout.POSITION)
        return None if item is None else int(item["position"])

    # --- t4 and malformed -----------------------------------------------------------------------------------

    def put_t4(self, tag: str, request_id: str, t4_ns: int, attributes: Item) -> None:
        """One packed item per invocation (see `records.t4`)."""
        pk = layout.t4_pk(tag, layout.t4_shard(request_id))
        self._put({"pk": pk, "sk": layout.t4_sk(request_id, t4_ns), **attributes})

    def t4_items(self, tag: str) -> Iterator[Item]:
        """All t4 items of the trial, in no order."""
        partitions = [layout.t4_pk(tag, shard) for shard in range(layout.T4_SHARDS)]
        return self._shards().items(partitions) if self._shards else chain.from_iterable(map(self._query, partitions))

    def t4_count(self, tag: str) -> int:
        """How many entries the trial's t4 items hold, duplicates and canaries included."""
        if self._shards is None:
            return sum(self.t4_shard_count(tag, shard) for shard in range(layout.T4_SHARDS))
        partitions = (layout.t4_pk(tag, shard) for shard in range(layout.T4_SHARDS))
        return sum(int(item["n"]) for item in self._shards().items(partitions, "n"))

    def t4_shard_count(self, tag: str, shard: int) -> int:
        """The same for one shard: for watching a run with few requests."""
        return sum(int(item["n"]) for item in self._query(layout.t4_pk(tag, shard), ProjectionExpression="n"))

    def put_malformed(self, store: str, t4_ns: int, request_id: str, index: int, body: str) -> None:
        """Keep an event that names nothing, for the count and for the reader."""
        sk, shown = layout.malformed_sk(t4_ns, request_id, index), body[: layout.MALFORMED_CHARS]
        self._put({"pk": layout.malformed_pk(store), "sk": sk, "body": shown})

    def malformed(self, store: str, from_ns: int, to_ns: int) -> list[Item]:
        """Malformed events of a store that came in a span of time."""
        span = Key("sk").between(f"{from_ns:020d}", f"{to_ns:020d}~")
        return list(self._pages(Key("pk").eq(layout.malformed_pk(store)) & span))

    # --- requests -------------------------------------------------------------------------------------------

    def _put(self, item: Item, **kwargs: Any) -> None:  # noqa: ANN401 -- passed through
        expires = int(time.time()) + self._ttl_s
        self._guard(lambda: self._table.put_item(Item={**item, "expires_at": expires}, **kwargs))

    def _get(self, pk: str, sk: str) -> Item | None:
        answer = self._guard(lambda: self._table.get_item(Key={"pk": pk, "sk": sk}, ConsistentRead=True))
        found: Item | None = answer.get("Item")
        return found

    def _query(self, pk: str, sk_prefix: str = "", **kwargs: Any) -> Iterator[Item]:  # noqa: ANN401 -- passed through
        condition = Key("pk").eq(pk)
        return self._pages(condition & Key("sk").begins_with(sk_prefix) if sk_prefix else condition, **kwargs)

    def _pages(self, condition: Any, **kwargs: Any) -> Iterator[Item]:  # noqa: ANN401 -- boto3 condition
        start: dict[str, Any] = {}
        while True:
            query = {"KeyConditionExpression": condition, "ConsistentRead": True, **kwargs, **start}
            answer = self._guard(partial(self._table.query, **query))
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _guard(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 -- whatever boto3 answers
        try:
            return call()
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                raise
            message = f"results table {self._table.name}: {error}"
            raise RecordsUnavailableError(message) from error
        except BotoCoreError as error:
            message = f"results table {self._table.name}: {error}"
            raise RecordsUnavailableError(message) from error


def _lease(target: str, item: Item) -> Lease:
    return Lease(
        target=target,
        tag=str(item["tag"]),
        run_id=str(item["run_id"]),
        trial=int(item["trial"]),
        execution_arn=str(item["execution_arn"]),
        taken_at_ns=int(item["taken_at_ns"]),
    )


def _pointer(item: Item) -> FilePointer:
    attempt, _, flush = str(item["sk"]).removeprefix(layout.FILE).rpartition("#")
    return FilePointer(
        attempt, int(flush), str(item["key"]), int(item["rows"]), int(item["expected"]), int(item["last_t2_ns"])
    )


def _clock(item: Item) -> ClockSample:
    role, sandbox, at_ns = str(item["sk"]).removeprefix(layout.CLOCK).split("#")
    return ClockSample(role, sandbox, int(at_ns), int(item["offset_ns"]), int(item["bound_ns"]))
