"""The table of runs as the register and the queue use it: transactions, and what their refusals mean."""

from __future__ import annotations

import json
import random
import time
import uuid
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from boto3.dynamodb.types import TypeDeserializer
from botocore.exceptions import BotoCoreError, ClientError

from stepbench.records.storage.refusals import unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


class RegisterTable:
    """One stack's table of runs. `pause` waits for so many seconds before a transaction is tried again."""

    def __init__(self, table: Table, pause: Callable[[float], None] = time.sleep) -> None:
        self._table: Any = table  # its calls are put together from parts, which the stubs do not follow
        self._pause = pause

    def _get(self, key: Item) -> Item | None:
        found: Item | None = self._call(lambda: self._table.get_item(Key=key, ConsistentRead=True)).get("Item")
        return found

    def _query(self, condition: ConditionBase) -> Iterator[Item]:
        start: Item = {}
        while True:
            query = {"KeyConditionExpression": condition, "ConsistentRead": True, **start}
            answer = self._call(partial(self._table.query, **query))
            yield from answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

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
