"""
The queue of runs, in the register's table: a line of waiting runs at each target, and who has it.

Item shapes:

    entry    pk queue            sk <run>              a QueueEntry's fields
    turn     pk run#<run>        sk turn               token resumed: how its execution is notified
    line     pk line#<target>    sk <arrival>#<run>    run_id: it waits for the target
    hold     pk line#<target>    sk !                  run_id since: it has the target

A run joins, is let in, and leaves by one transaction each, on all its targets: whatever two callers do at once, no
target is held twice, and no run waits at some of its targets only. What a transaction reads and writes depends on
these targets alone, and not on how many wait elsewhere.
"""

from __future__ import annotations

import json
import random
import re
import time
import uuid
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from boto3.dynamodb.conditions import Key
from boto3.dynamodb.types import TypeDeserializer
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.runs import QueueEntry
from stepbench.records.storage.run_store import query_items, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from boto3.dynamodb.conditions import ConditionBase
    from mypy_boto3_dynamodb.service_resource import Table

    from stepbench.contracts.base import Contract


Item = dict[str, Any]
RUN_SK, STARTING = "run", "starting"
_DESERIALIZER = TypeDeserializer()
_CONDITION_FAILED = "ConditionalCheckFailed"
_PASSING = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})
"""Why a transaction may be cancelled that succeeds a moment later; boto3 tries none of these again."""
_PASSING_ERRORS = frozenset({"TransactionConflictException", "TransactionInProgressException"})
_PAUSES_S = (0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
"""At most; a random part of each is waited, so that those who were in each other's way do not meet again."""


class FailedConditions(dict[int, Item]):
    """The actions of a transaction whose condition did not hold, by number, with the items as they are."""


class _ConditionFailedError(Exception):
    def __init__(self, failed: FailedConditions) -> None:
        self.failed = failed
        super().__init__("a condition does not hold")


def run_key(run_id: str) -> Item:
    """Return the key of a run's entry."""
    return {"pk": f"run#{run_id}", "sk": RUN_SK}


def starting_key(run_id: str) -> Item:
    """Return the key of what says that a run is submitted, and not in the queue yet."""
    return {"pk": STARTING, "sk": run_id}


def attributes(model: Contract) -> Item:
    """Return a model's fields as DynamoDB takes them: numbers as decimals, nothing for None."""
    found: Item = json.loads(model.model_dump_json(exclude_none=True), parse_float=Decimal)
    return found


def _reasons(error: ClientError) -> list[Item]:
    """Return why each action of a transaction was not done; nothing for another error."""
    found: Any = error.response.get("CancellationReasons", [])
    return list(found)


def _failed_conditions(error: ClientError) -> FailedConditions:
    if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
        return FailedConditions({0: {}})
    failed = (
        (index, {name: _DESERIALIZER.deserialize(value) for name, value in reason.get("Item", {}).items()})
        for index, reason in enumerate(_reasons(error))
        if reason.get("Code") == _CONDITION_FAILED
    )
    return FailedConditions(failed)


def _passes(error: ClientError) -> bool:
    return error.response["Error"]["Code"] in _PASSING_ERRORS or any(
        reason.get("Code") in _PASSING for reason in _reasons(error)
    )


_QUEUE, _TURN, _HELD = "queue", "turn", "!"


class First(NamedTuple):
    """Who has a target, or is the first to wait for it."""

    run_id: str
    has_it: bool


class Turn(NamedTuple):
    """The token by which a run's execution is notified that its turn has come, and whether it was notified."""

    token: str
    resumed: bool


class RunQueue:
    """
    The queue of one stack, in its table of runs.

    `pause` waits for so many seconds before a transaction is tried again.
    """

    def __init__(self, table: Table, pause: Callable[[float], None] = time.sleep) -> None:
        self._table: Any = table  # its calls are put together from parts, which the stubs do not follow
        self._pause = pause

    def join(self, entry: QueueEntry, token: str, now: datetime) -> bool:
        """
        Join the queue, or renew the token of a run that is in it; False if the run is over.

        The run's entry in the register says so in the same transaction: one that is closed meanwhile never joins.
        """
        waits = {"submitted": "submitted", "queued": "queued", "now": now.isoformat()}
        change, condition = "SET #state = :queued, queued_at = :now", "#state IN (:submitted, :queued)"
        queued = _update(run_key(entry.run_id), change, condition, **waits)
        place = {"pk": _QUEUE, "sk": entry.run_id, **attributes(entry)}
        lines = [{"Put": {"Item": {**_line_key(entry, target), "run_id": entry.run_id}}} for target in entry.targets]
        turn = {"Item": {**_turn_key(entry.run_id), "token": token, "resumed": False}}
        begun = {"Delete": {"Key": starting_key(entry.run_id)}}
        fresh = {"Item": place, "ConditionExpression": "attribute_not_exists(pk)"}
        if not self._transact(queued, {"Put": fresh}, *lines, {"Put": turn}, begun):
            return True
        change, condition = "SET #token = :token, resumed = :no", "attribute_exists(pk)"
        return not self._transact(_update(_turn_key(entry.run_id), change, condition, token=token, no=False))

    def queue(self) -> list[QueueEntry]:
        """Return everyone in the queue, in order of arrival: those that run, and those that wait."""
        return [entry for entry in self.entries() if entry.left_at is None]

    def entries(self) -> list[QueueEntry]:
        """Return the queue with those who leave it at this moment, or whose leaving was broken off."""
        return sorted(map(_entry, self._query(Key("pk").eq(_QUEUE))), key=lambda entry: entry.order)

    def entry(self, run_id: str) -> QueueEntry | None:
        """Return a run's place in the queue, also while it leaves."""
        found = self._get({"pk": _QUEUE, "sk": run_id})
        return None if found is None else _entry(found)

    def first(self, target: str) -> First | None:
        """Return who has a target, or who is the first to wait for it; None if nobody does."""
        query = partial(
            self._table.query, KeyConditionExpression=Key("pk").eq(f"line#{target}"), ConsistentRead=True, Limit=1
        )
        items: list[Item] = self._call(query)["Items"]
        return First(str(items[0]["run_id"]), items[0]["sk"] == _HELD) if items else None

    def turn(self, run_id: str) -> Turn | None:
        """Return how a run's execution is notified that its turn has come; None if the run is not in the queue."""
        found = self._get(_turn_key(run_id))
        return None if found is None else Turn(str(found["token"]), bool(found["resumed"]))

    def admit(self, entry: QueueEntry, now: datetime) -> bool:
        """Give a waiting run all its targets at once; False if one of them is held, or it no longer waits."""
        change, condition = "SET admitted_at = :now", f"{_IS_IN} AND attribute_not_exists(admitted_at)"
        turn = _update({"pk": _QUEUE, "sk": entry.run_id}, change, condition, now=now.isoformat())
        hold = {"run_id": entry.run_id, "since": now.isoformat()}
        free = {"ConditionExpression": "attribute_not_exists(pk)"}
        taken = [{"Put": {"Item": {**_hold_key(target), **hold}, **free}} for target in entry.targets]
        return not self._transact(turn, *_leave_lines(entry), *taken)

    def mark_resumed(self, run_id: str, token: str) -> None:
        """Note that Step Functions knows that the run's turn has come, unless it has another token now."""
        self._transact(_update(_turn_key(run_id), "SET resumed = :yes", "#token = :token", yes=True, token=token))

    def release(self, entry: QueueEntry, now: datetime) -> bool:
        """
        Give back what a run holds, or its places in lines; False if it is no longer as `entry` says.

        Its entry stays, with `left_at`, until `forget`: whoever breaks off before those behind it are notified leaves a
        trace, by which it is done again.
        """
        exists = "attribute_exists" if entry.admitted_at else "attribute_not_exists"
        change, condition = "SET left_at = :now", f"{_IS_IN} AND {exists}(admitted_at)"
        gone = _update({"pk": _QUEUE, "sk": entry.run_id}, change, condition, now=now.isoformat())
        mine = {"ConditionExpression": "run_id = :run", "ExpressionAttributeValues": {":run": entry.run_id}}
        held = [{"Delete": {"Key": _hold_key(target), **mine}} for target in entry.targets]
        turn = {"Delete": {"Key": _turn_key(entry.run_id)}}
        return not self._transact(gone, *(held if entry.admitted_at else _leave_lines(entry)), turn)

    def forget(self, entry: QueueEntry) -> None:
        """Remove the entry of a run that has left."""
        key = {"pk": _QUEUE, "sk": entry.run_id}
        self._transact({"Delete": {"Key": key, "ConditionExpression": "attribute_exists(left_at)"}})

    def _get(self, key: Item) -> Item | None:
        found: Item | None = self._call(lambda: self._table.get_item(Key=key, ConsistentRead=True)).get("Item")
        return found

    def _query(self, condition: ConditionBase, **more: Any) -> Iterator[Item]:  # noqa: ANN401 -- boto3's
        wanted = {"KeyConditionExpression": condition, **(more or {"ConsistentRead": True})}
        return query_items(lambda page: self._call(partial(self._table.query, **page)), wanted)

    def _transact(self, *actions: Item) -> FailedConditions:
        """
        Write all or nothing: return what failed, nothing if all is written.

        Another transaction on one of the items is waited for. One whose answer is lost is not done twice: each try, of
        boto3's or of ours, has the same token.

        Raises:
            RecordsUnavailableError: it is not done, for another reason than a condition.
        """
        client, name = self._table.meta.client, self._table.name
        items = [{verb: {"TableName": name, **action} for verb, action in entry.items()} for entry in actions]
        request = {"TransactItems": items, "ClientRequestToken": uuid.uuid4().hex}
        try:
            self._call(lambda: client.transact_write_items(**request))
        except _ConditionFailedError as error:
            return error.failed
        return FailedConditions()

    def _call(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 -- whatever boto3 answers
        for limit_s in (*_PAUSES_S, None):
            try:
                return call()
            except (BotoCoreError, ClientError) as error:
                if isinstance(error, ClientError):
                    if failed := _failed_conditions(error):
                        raise _ConditionFailedError(failed) from error
                    if limit_s is not None and _passes(error):
                        self._pause(random.uniform(0, limit_s))  # noqa: S311 -- no secret
                        continue
                message = f"register of runs {self._table.name}: {error}"
                raise unavailable(message, error) from error
        raise AssertionError  # the last try returns or raises


_IS_IN = "attribute_exists(pk) AND attribute_not_exists(left_at)"


def _update(key: Item, change: str, condition: str, **values: object) -> Item:
    """Return an item's change, for which a condition holds; in both, `#name` is an attribute and `:name` a value."""
    names = {f"#{name}": name for name in re.findall(r"#(\w+)", change + condition)}
    return {
        "Update": {
            "Key": key,
            "UpdateExpression": change,
            "ConditionExpression": condition,
            "ExpressionAttributeValues": {f":{name}": value for name, value in values.items()},
            **({"ExpressionAttributeNames": names} if names else {}),
        }
    }


def _leave_lines(entry: QueueEntry) -> list[Item]:
    waits = {"ConditionExpression": "attribute_exists(pk)"}
    return [{"Delete": {"Key": _line_key(entry, target), **waits}} for target in entry.targets]


def _line_key(entry: QueueEntry, target: str) -> Item:
    return {"pk": f"line#{target}", "sk": "#".join(entry.order)}


def _hold_key(target: str) -> Item:
    return {"pk": f"line#{target}", "sk": _HELD}


def _turn_key(run_id: str) -> Item:
    return {"pk": f"run#{run_id}", "sk": _TURN}


def _entry(item: Item) -> QueueEntry:
    return QueueEntry.model_validate({name: value for name, value in item.items() if name not in {"pk", "sk"}})
