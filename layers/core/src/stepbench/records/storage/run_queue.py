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

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from boto3.dynamodb.conditions import Key

from stepbench.contracts.runs import QueueEntry
from stepbench.records.storage.register_table import Item, RegisterTable, attributes, run_key, starting_key

if TYPE_CHECKING:
    from datetime import datetime

_QUEUE, _TURN, _HELD = "queue", "turn", "!"


class First(NamedTuple):
    """Who has a target, or is the first to wait for it."""

    run_id: str
    has_it: bool


class Turn(NamedTuple):
    """The token by which a run's execution is notified that its turn has come, and whether it was notified."""

    token: str
    resumed: bool


class RunQueue(RegisterTable):
    """The queue of one stack."""

    def join(self, entry: QueueEntry, token: str, now: datetime) -> bool:
        """
        Join the queue, or renew the token of a run that is in it; False if the run is over.

        The run's entry in the register says so in the same transaction: one that is closed meanwhile never joins.
        """
        queued = {
            "Key": run_key(entry.run_id),
            "UpdateExpression": "SET #state = :queued, queued_at = :now",
            "ConditionExpression": "#state IN (:submitted, :queued)",
            "ExpressionAttributeNames": {"#state": "state"},
            "ExpressionAttributeValues": {":submitted": "submitted", ":queued": "queued", ":now": now.isoformat()},
        }
        place = {"pk": _QUEUE, "sk": entry.run_id, **attributes(entry)}
        lines = [{"Put": {"Item": {**_line_key(entry, target), "run_id": entry.run_id}}} for target in entry.targets]
        turn = {"Item": {**_turn_key(entry.run_id), "token": token, "resumed": False}}
        begun = {"Delete": {"Key": starting_key(entry.run_id)}}
        fresh = {"Item": place, "ConditionExpression": "attribute_not_exists(pk)"}
        if not self._transact({"Update": queued}, {"Put": fresh}, *lines, {"Put": turn}, begun):
            return True
        renewed = {
            "Key": _turn_key(entry.run_id),
            "UpdateExpression": "SET #token = :token, resumed = :no",
            "ConditionExpression": "attribute_exists(pk)",
            "ExpressionAttributeNames": {"#token": "token"},
            "ExpressionAttributeValues": {":token": token, ":no": False},
        }
        return not self._transact({"Update": renewed})

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
            self._table.query,
            KeyConditionExpression=Key("pk").eq(f"line#{target}"),
            ConsistentRead=True,
            Limit=1,
        )
        items: list[Item] = self._call(query)["Items"]
        return First(str(items[0]["run_id"]), items[0]["sk"] == _HELD) if items else None

    def turn(self, run_id: str) -> Turn | None:
        """Return how a run's execution is notified that its turn has come; None if the run is not in the queue."""
        found = self._get(_turn_key(run_id))
        return None if found is None else Turn(str(found["token"]), bool(found["resumed"]))

    def admit(self, entry: QueueEntry, now: datetime) -> bool:
        """Give a waiting run all its targets at once; False if one of them is held, or it no longer waits."""
        turn = {
            "Key": {"pk": _QUEUE, "sk": entry.run_id},
            "UpdateExpression": "SET admitted_at = :now",
            "ConditionExpression": f"{_IS_IN} AND attribute_not_exists(admitted_at)",
            "ExpressionAttributeValues": {":now": now.isoformat()},
        }
        return not self._transact({"Update": turn}, *self._leave_lines(entry), *self._take_targets(entry, now))

    def mark_resumed(self, run_id: str, token: str) -> None:
        """Note that Step Functions knows that the run's turn has come, unless it has another token now."""
        update = {
            "Key": _turn_key(run_id),
            "UpdateExpression": "SET resumed = :yes",
            "ConditionExpression": "#token = :token",
            "ExpressionAttributeNames": {"#token": "token"},
            "ExpressionAttributeValues": {":yes": True, ":token": token},
        }
        self._transact({"Update": update})

    def release(self, entry: QueueEntry, now: datetime) -> bool:
        """
        Give back what a run holds, or its places in lines; False if it is no longer as `entry` says.

        Its entry stays, with `left_at`, until `forget`: whoever breaks off before those behind it are notified leaves a
        trace, by which it is done again.
        """
        waits = "attribute_not_exists(admitted_at)"
        gone = {
            "Key": {"pk": _QUEUE, "sk": entry.run_id},
            "UpdateExpression": "SET left_at = :now",
            "ConditionExpression": f"{_IS_IN} AND {'attribute_exists(admitted_at)' if entry.admitted_at else waits}",
            "ExpressionAttributeValues": {":now": now.isoformat()},
        }
        given_back = self._give_back(entry) if entry.admitted_at else self._leave_lines(entry)
        return not self._transact({"Update": gone}, *given_back, {"Delete": {"Key": _turn_key(entry.run_id)}})

    def forget(self, entry: QueueEntry) -> None:
        """Remove the entry of a run that has left."""
        key = {"pk": _QUEUE, "sk": entry.run_id}
        self._transact({"Delete": {"Key": key, "ConditionExpression": "attribute_exists(left_at)"}})

    @staticmethod
    def _leave_lines(entry: QueueEntry) -> list[Item]:
        condition = {"ConditionExpression": "attribute_exists(pk)"}
        return [{"Delete": {"Key": _line_key(entry, target), **condition}} for target in entry.targets]

    @staticmethod
    def _take_targets(entry: QueueEntry, now: datetime) -> list[Item]:
        hold = {"run_id": entry.run_id, "since": now.isoformat()}
        condition = {"ConditionExpression": "attribute_not_exists(pk)"}
        return [{"Put": {"Item": {**_hold_key(target), **hold}, **condition}} for target in entry.targets]

    @staticmethod
    def _give_back(entry: QueueEntry) -> list[Item]:
        mine = {
            "ConditionExpression": "run_id = :run",
            "ExpressionAttributeValues": {":run": entry.run_id},
        }
        return [{"Delete": {"Key": _hold_key(target), **mine}} for target in entry.targets]


_IS_IN = "attribute_exists(pk) AND attribute_not_exists(left_at)"


def _line_key(entry: QueueEntry, target: str) -> Item:
    return {"pk": f"line#{target}", "sk": "#".join(entry.order)}


def _hold_key(target: str) -> Item:
    return {"pk": f"line#{target}", "sk": _HELD}


def _turn_key(run_id: str) -> Item:
    return {"pk": f"run#{run_id}", "sk": _TURN}


def _entry(item: Item) -> QueueEntry:
    return QueueEntry.model_validate({name: value for name, value in item.items() if name not in {"pk", "sk"}})
