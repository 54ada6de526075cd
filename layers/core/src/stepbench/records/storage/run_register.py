"""
The register of runs and the queue: one small DynamoDB table of its own, apart from the records of the measured path.

Item shapes:

    run      pk run#<id>   sk run                 a RunRecord's fields; indexes: team, team_plan, submitted
    queue    pk queue      sk <arrival>#<id>      a QueueEntry's fields
    hold     pk holds      sk <target>            run_id since: who has the target
    spent    pk spent#<yyyy-mm>  sk <team>        usd: what the team's runs of the month cost, as far as known

A run has its targets once one transaction has written all its holds: so whatever two callers do at once, no target is
held twice.
"""

from __future__ import annotations

import json
import time
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from boto3.dynamodb.conditions import Attr, Key
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.runs import QueueEntry, RunRecord, RunState
from stepbench.records.storage.refusals import unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from boto3.dynamodb.conditions import ConditionBase
    from mypy_boto3_dynamodb.service_resource import Table


Item = dict[str, Any]
QUEUE_PK, HOLDS_PK, RUN_SK = "queue", "holds", "run"
BY_TEAM, BY_PLAN = "by-team", "by-plan"
"""Sparse indexes: only runs have their attributes."""
_INDEXED = ("team_plan", "submitted", "pk", "sk", "expires_at")
_SCANNED = 200
"""So many are read at a time where some are left out afterwards."""
_CONFLICTS = ("TransactionConflict", "ConditionalCheckFailed")


class RunQuery(NamedTuple):
    """
    Which runs are wanted.

    plan, states: only runs of this plan, and in one of these states; all where empty. since, until: first and last
    moment of submission, in UTC, as the beginnings of ISO texts. after: what the page before named as the next.
    """

    team: str
    plan: str = ""
    states: tuple[RunState, ...] = ()
    since: str = ""
    until: str = ""
    limit: int = 50
    after: str = ""


class RunPage(NamedTuple):
    """Runs, newest first, and what the next page's query has in `after`; "" after the last."""

    runs: tuple[RunRecord, ...]
    next: str


class RunRegister:
    """The register of one stack."""

    def __init__(self, table: Table, ttl_days: int = 365) -> None:
        self._table: Any = table  # its calls are put together from parts, which the stubs do not follow
        self._ttl_s = ttl_days * 86_400

    def add(self, record: RunRecord) -> bool:
        """Enter a run; False if there is one of its id."""
        return self._holds(
            partial(self._table.put_item, Item=self._item(record), ConditionExpression=Attr("pk").not_exists())
        )

    def find(self, run_id: str) -> RunRecord | None:
        """Return the run's entry, if there is one."""
        answer = self._guard(lambda: self._table.get_item(Key=_run_key(run_id), ConsistentRead=True))
        found = answer.get("Item")
        return None if found is None else _record(found)

    def change(self, run_id: str, states: Sequence[RunState], **changes: Any) -> RunRecord | None:  # noqa: ANN401 -- fields
        """Change fields of a run that is in one of these states; return it, or None if it is in no such state."""
        current = self.find(run_id)
        if current is None or current.state not in states:
            return None
        changed = RunRecord.model_validate({**current.model_dump(), **changes})
        return changed if self._put_if(Attr("state").is_in(list(states)), self._item(changed)) else None

    def page(self, wanted: RunQuery) -> RunPage:
        """Return the runs that are asked for, newest first."""
        key, value = ("team_plan", f"{wanted.team}#{wanted.plan}") if wanted.plan else ("team", wanted.team)
        times = Key("submitted").between(wanted.since or "0", f"{wanted.until}~")
        query: Item = {"KeyConditionExpression": Key(key).eq(value) & times, "ScanIndexForward": False}
        if wanted.states:
            query["FilterExpression"] = Attr("state").is_in(list(wanted.states))
        query["IndexName"] = BY_PLAN if wanted.plan else BY_TEAM
        query["Limit"] = _SCANNED if wanted.states else wanted.limit
        if wanted.after:
            place = {key: value, "submitted": wanted.after}
            query["ExclusiveStartKey"] = {**_run_key(wanted.after.partition("#")[2]), **place}
        found: list[Item] = []
        more = True
        while more and len(found) < wanted.limit:
            answer = self._guard(partial(self._table.query, **query))
            found.extend(answer["Items"])
            more = "LastEvaluatedKey" in answer
            query["ExclusiveStartKey"] = answer.get("LastEvaluatedKey")
        shown = found[: wanted.limit]
        is_last = not more and len(found) <= wanted.limit
        return RunPage(tuple(map(_record, shown)), "" if is_last or not shown else str(shown[-1]["submitted"]))

    def join(self, entry: QueueEntry) -> QueueEntry:
        """Join the queue, or renew the token of a run that is in it; return the entry as it stands there."""
        item = {"pk": QUEUE_PK, "sk": _queue_sk(entry), **_attributes(entry)}
        if self._put_if(Attr("pk").not_exists(), item):
            return entry
        answer = self._guard(
            lambda: self._table.update_item(
                Key={"pk": QUEUE_PK, "sk": _queue_sk(entry)},
                UpdateExpression="SET #token = :token, #resumed = :no",
                ExpressionAttributeNames={"#token": "token", "#resumed": "resumed"},
                ExpressionAttributeValues={":token": entry.token, ":no": False},
                ReturnValues="ALL_NEW",
            )
        )
        return _entry(answer["Attributes"])

    def queue(self) -> list[QueueEntry]:
        """Return everyone in the queue, in order of arrival: those that run, and those that wait."""
        return [_entry(item) for item in self._query(Key("pk").eq(QUEUE_PK))]

    def admit(self, entry: QueueEntry, now: datetime) -> bool:
        """Give a waiting run all its targets at once; False if one of them is held, or it no longer waits."""
        fresh = "attribute_not_exists(pk)"
        holds = [
            {
                "Put": {
                    "Item": {"pk": HOLDS_PK, "sk": target, "run_id": entry.run_id, "since": now.isoformat()},
                    "ConditionExpression": fresh,
                }
            }
            for target in entry.targets
        ]
        turn = {
            "Key": {"pk": QUEUE_PK, "sk": _queue_sk(entry)},
            "UpdateExpression": "SET admitted_at = :now",
            "ConditionExpression": "attribute_exists(pk) AND attribute_not_exists(admitted_at)",
            "ExpressionAttributeValues": {":now": now.isoformat()},
        }
        return self._transact([*holds, {"Update": turn}])

    def mark_resumed(self, entry: QueueEntry) -> None:
        """Note that Step Functions knows that the run's turn has come."""
        update = partial(
            self._table.update_item,
            Key={"pk": QUEUE_PK, "sk": _queue_sk(entry)},
            UpdateExpression="SET resumed = :yes",
            ConditionExpression="attribute_exists(pk) AND #token = :token",
            ExpressionAttributeNames={"#token": "token"},
            ExpressionAttributeValues={":yes": True, ":token": entry.token},
        )
        self._holds(update)

    def leave(self, entry: QueueEntry) -> bool:
        """Leave the queue and give back what the run holds; False if it has left already."""
        mine = "run_id = :run"
        gone: Item = {"Key": {"pk": QUEUE_PK, "sk": _queue_sk(entry)}, "ConditionExpression": "attribute_exists(pk)"}
        if not entry.admitted_at:
            gone["ConditionExpression"] += " AND attribute_not_exists(admitted_at)"
            return self._transact([{"Delete": gone}])
        freed = [
            {
                "Delete": {
                    "Key": {"pk": HOLDS_PK, "sk": target},
                    "ConditionExpression": mine,
                    "ExpressionAttributeValues": {":run": entry.run_id},
                }
            }
            for target in entry.targets
        ]
        return self._transact([*freed, {"Delete": gone}])

    def _item(self, record: RunRecord) -> Item:
        attributes = _attributes(record)
        submitted = f"{attributes['submitted_at']}#{record.run_id}"
        expires_at = int(time.time()) + self._ttl_s
        team_plan = f"{record.team}#{record.plan}"
        return {
            **_run_key(record.run_id),
            **attributes,
            "team_plan": team_plan,
            "submitted": submitted,
            "expires_at": expires_at,
        }

    def _query(self, condition: ConditionBase) -> Iterator[Item]:
        start: Item = {}
        while True:
            query = {"KeyConditionExpression": condition, "ConsistentRead": True, **start}
            answer = self._guard(partial(self._table.query, **query))
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _transact(self, actions: list[dict[str, Item]]) -> bool:
        """Write all or nothing; False if a condition does not hold, or another transaction is at work on an item."""
        client, name = self._table.meta.client, self._table.name
        items = [{verb: {"TableName": name, **action} for verb, action in entry.items()} for entry in actions]
        return self._holds(lambda: client.transact_write_items(TransactItems=items))

    def _put_if(self, condition: ConditionBase, item: Item) -> bool:
        """Put an item if the condition holds for what is there; return whether it did."""
        return self._holds(lambda: self._table.put_item(Item=item, ConditionExpression=condition))

    def _holds(self, call: Callable[[], Any]) -> bool:
        try:
            self._guard(call)
        except ClientError:
            return False
        return True

    def _guard(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 -- whatever boto3 answers
        try:
            return call()
        except (BotoCoreError, ClientError) as error:
            if isinstance(error, ClientError) and _is_lost(error):
                raise
            message = f"register of runs {self._table.name}: {error}"
            raise unavailable(message, error) from error


def _is_lost(error: ClientError) -> bool:
    """Tell whether the answer is that somebody else was first, rather than that the table failed."""
    code = error.response["Error"]["Code"]
    if code != "TransactionCanceledException":
        return code == "ConditionalCheckFailedException"
    reasons = {reason.get("Code") for reason in error.response.get("CancellationReasons", [])} - {"None", None}
    return bool(reasons) and reasons <= set(_CONFLICTS)


def _run_key(run_id: str) -> Item:
    return {"pk": f"run#{run_id}", "sk": RUN_SK}


def _queue_sk(entry: QueueEntry) -> str:
    return "#".join(entry.order)


def _attributes(model: RunRecord | QueueEntry) -> Item:
    """Return a model's fields as DynamoDB takes them: numbers as decimals, nothing for None."""
    found: Item = json.loads(model.model_dump_json(exclude_none=True), parse_float=Decimal)
    return found


def _record(item: Item) -> RunRecord:
    return RunRecord.model_validate({name: value for name, value in item.items() if name not in _INDEXED})


def _entry(item: Item) -> QueueEntry:
    return QueueEntry.model_validate({name: value for name, value in item.items() if name not in _INDEXED})
