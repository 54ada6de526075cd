"""
The register of runs: one small DynamoDB table of its own, apart from the records of the measured path.

Item shapes, beside the queue's (`run_queue.py`):

    run      pk run#<id>        sk run       a RunRecord's fields; indexes: team, team_plan, submitted
    starting pk starting        sk <id>      since: the run is submitted, and not yet in the queue or closed
    spent    pk spent#<month>   sk <team>    usd: what the team's runs cost that were submitted in that month;
                                sk *         of all teams
    kept     pk kept#<name>     sk kept      numbers that are known for a while
    claim    pk claim#<SHA-256> sk claim     run_id: the one run that was started for a schedule's time

What is spent changes in the same transaction as the run that it is spent on, so that each run counts once.
"""

from __future__ import annotations

import hashlib
import time
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from boto3.dynamodb.conditions import Attr, Key

from stepbench.contracts.runs import RunRecord, RunState
from stepbench.errors import StepbenchError
from stepbench.records.storage.run_queue import STARTING, Item, RunQueue, attributes, run_key, starting_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_dynamodb.service_resource import Table

BY_TEAM, BY_PLAN = "by-team", "by-plan"
"""Sparse indexes: only runs have their attributes."""
_INDEXED = ("team_plan", "submitted", "pk", "sk", "expires_at")
_SCANNED = 200
"""So many are read at a time where some are left out afterwards."""
_SPENT_DAYS = 400
"""So long is kept what a month has cost."""
_CLAIMED_DAYS = 7
"""A schedule tries for a day at the most to deliver (EventBridge Scheduler's MaximumEventAgeInSeconds)."""
_EVERYBODY = "*"
Whose = Literal["team", "account"]


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

    @property
    def times(self) -> tuple[str, str]:
        """Return the first and the last place (`RunRecord.place`) that is wanted."""
        return self.since.removesuffix("Z") or "0", f"{self.until.removesuffix('Z')}~"


class RunPage(NamedTuple):
    """Runs, newest first, and what the next page's query has in `after`; "" after the last."""

    runs: tuple[RunRecord, ...]
    next: str


class Budgets(NamedTuple):
    """What the runs of a month may cost, in US dollars: each team's, and all together; 0: as much as they like."""

    team_usd: float = 0.0
    account_usd: float = 0.0


class OverBudgetError(StepbenchError):
    """A run would cost more than is left of its month's budget."""

    def __init__(self, budget_usd: float, spent_usd: float, whose: Whose) -> None:
        self.whose, self.budget_usd, self.spent_usd = whose, budget_usd, spent_usd
        super().__init__(f"${spent_usd:.2f} of the {whose}'s ${budget_usd:.2f} of this month are spent")


class RunRegister(RunQueue):
    """The register of one stack, with its queue."""

    def __init__(self, table: Table, ttl_days: int = 365, pause: Callable[[float], None] = time.sleep) -> None:
        super().__init__(table, pause)
        self._ttl_s = ttl_days * 86_400

    def add(self, record: RunRecord, budgets: Budgets = Budgets()) -> bool:  # noqa: B008 -- it is immutable
        """
        Enter a run, and reserve what it may cost; False if there is one of its id.

        Raises:
            OverBudgetError: it would cost more than is left; it has not been entered.
        """
        entry = self._item(record)
        new = {"Item": entry, "ConditionExpression": "attribute_not_exists(pk)"}
        limits: tuple[tuple[Whose, float], ...] = (("team", budgets.team_usd), ("account", budgets.account_usd))
        for whose, budget_usd in limits:
            if 0 < budget_usd < record.spent_usd:  # which no condition on the item can tell
                if self.find(record.run_id) is not None:
                    return False
                raise OverBudgetError(budget_usd, self._spent(record, whose), whose)
        actions: list[Item] = [{"Put": new}, *self._spend(record, record.spent_usd, budgets)]
        if record.state == "submitted":
            since = {"since": record.submitted_at.isoformat(), "expires_at": entry["expires_at"]}
            actions.append({"Put": {"Item": {**starting_key(record.run_id), **since}}})
        failed = self._transact(*actions)
        if failed and 0 not in failed:
            index, item = next(iter(failed.items()))
            whose, budget_usd = limits[index - 1]
            raise OverBudgetError(budget_usd, float(item.get("usd", 0)), whose)
        return not failed

    def find(self, run_id: str) -> RunRecord | None:
        """Return the run's entry, if there is one."""
        found = self._get(run_key(run_id))
        return None if found is None else _record(found)

    def change(self, run_id: str, states: Sequence[RunState], **changes: Any) -> RunRecord | None:  # noqa: ANN401 -- fields
        """
        Change fields of a run that is in one of these states; return it, or None if it is in no such state.

        With its state and its actual cost changes what counts against budgets.
        """
        while True:  # each time, somebody else has brought the run on: from no state does one lead back
            current = self.find(run_id)
            if current is None or current.state not in states:
                return None
            changed = RunRecord.model_validate({**current.model_dump(), **changes})
            put = {
                "Item": self._item(changed),
                "ConditionExpression": "#state = :state",
                "ExpressionAttributeNames": {"#state": "state"},
                "ExpressionAttributeValues": {":state": current.state},
            }
            actions: list[Item] = [{"Put": put}, *self._spend(changed, changed.spent_usd - current.spent_usd)]
            if current.state == "submitted" and changed.state != "submitted":
                actions.append({"Delete": {"Key": starting_key(run_id)}})
            if not self._transact(*actions):
                return changed

    def starting(self, before: datetime) -> list[str]:
        """Return the runs that were submitted before a moment, and have neither joined the queue nor been closed."""
        found = self._query(Key("pk").eq(STARTING))
        return [str(item["sk"]) for item in found if datetime.fromisoformat(str(item["since"])) < before]

    def spent(self, month: str) -> dict[str, float]:
        """Return what the runs of a month have cost, or may cost, by team; "*" are all together."""
        return {str(item["sk"]): float(item["usd"]) for item in self._query(Key("pk").eq(_spent_pk(month)))}

    def keep(self, name: str, numbers: dict[str, int], seconds: float) -> None:
        """Keep numbers under a name for so long."""
        item = {**_kept_key(name), **numbers, "expires_at": int(time.time() + seconds)}
        self._call(lambda: self._table.put_item(Item=item))

    def kept(self, name: str) -> dict[str, int]:
        """Return the numbers that are kept under a name; none once their time is over."""
        found = self._get(_kept_key(name)) or {"expires_at": 0}
        is_over = int(found["expires_at"]) <= time.time()
        return {} if is_over else {key: int(value) for key, value in found.items() if key not in _INDEXED}

    def claim(self, scheduled: str, run_id: str) -> str:
        """Return the run that a schedule's time belongs to: the first one that has asked."""
        key = {"pk": f"claim#{hashlib.sha256(scheduled.encode()).hexdigest()}", "sk": "claim"}
        claim = {
            "Item": {**key, "run_id": run_id, "expires_at": int(time.time()) + _CLAIMED_DAYS * 86_400},
            "ConditionExpression": "attribute_not_exists(pk) OR run_id = :run_id",
            "ExpressionAttributeValues": {":run_id": run_id},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        failed = self._transact({"Put": claim})
        return str(failed[0]["run_id"]) if failed else run_id

    def page(self, wanted: RunQuery) -> RunPage:
        """Return the runs that are asked for, newest first."""
        key, value = ("team_plan", f"{wanted.team}#{wanted.plan}") if wanted.plan else ("team", wanted.team)
        times = Key("submitted").between(*wanted.times)
        query: Item = {"ScanIndexForward": False, "IndexName": BY_PLAN if wanted.plan else BY_TEAM}
        query["Limit"] = _SCANNED if wanted.states else wanted.limit + 1
        if wanted.states:
            query["FilterExpression"] = Attr("state").is_in(list(wanted.states))
        if wanted.after:
            place = {key: value, "submitted": wanted.after}
            query["ExclusiveStartKey"] = {**run_key(wanted.after.partition("~")[2]), **place}
        found = list(islice(self._query(Key(key).eq(value) & times, **query), wanted.limit + 1))
        shown = found[: wanted.limit]
        return RunPage(tuple(map(_record, shown)), str(shown[-1]["submitted"]) if len(found) > len(shown) else "")

    def _item(self, record: RunRecord) -> Item:
        team_plan = f"{record.team}#{record.plan}"
        expires_at = int(time.time()) + self._ttl_s
        known = {"team_plan": team_plan, "submitted": record.place, "expires_at": expires_at}
        return {**run_key(record.run_id), **attributes(record), **known}

    @staticmethod
    def _spend(record: RunRecord, usd: float, budgets: Budgets = Budgets()) -> list[Item]:  # noqa: B008
        """Return what adds dollars to the run's month: to its team's, then to everybody's."""
        found = []
        for who, budget_usd in ((record.team, budgets.team_usd), (_EVERYBODY, budgets.account_usd)):
            update: Item = {
                "Key": {"pk": _spent_pk(record.month), "sk": who},
                "UpdateExpression": "ADD usd :usd SET expires_at = :expires_at",
                "ExpressionAttributeValues": {
                    ":usd": _decimal(usd),
                    ":expires_at": int(time.time()) + _SPENT_DAYS * 86_400,
                },
            }
            if budget_usd:
                update["ConditionExpression"] = "attribute_not_exists(usd) OR usd <= :room"
                update["ExpressionAttributeValues"][":room"] = _decimal(budget_usd - usd)
                update["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
            found.append({"Update": update})
        return found if _decimal(usd) else []

    def _spent(self, record: RunRecord, whose: Whose) -> float:
        sk = record.team if whose == "team" else _EVERYBODY
        return float((self._get({"pk": _spent_pk(record.month), "sk": sk}) or {}).get("usd", 0))


def _record(item: Item) -> RunRecord:
    return RunRecord.model_validate({name: value for name, value in item.items() if name not in _INDEXED})


def _kept_key(name: str) -> Item:
    return {"pk": f"kept#{name}", "sk": "kept"}


def _spent_pk(month: str) -> str:
    return f"spent#{month}"


def _decimal(usd: float) -> Decimal:
    """Return dollars to a millionth, so that what is given back is what was reserved."""
    return Decimal(f"{usd:.6f}")
