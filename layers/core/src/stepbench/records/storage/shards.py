"""
Partitions of the results table, read side by side: the t4 items of a trial are in sixteen, and may be millions.

An answer of DynamoDB is JSON that says the type of each value; botocore reads it by a model, in five times the time
that it takes by itself. It still signs, repeats and raises.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.errors import RecordsUnavailableError
from stepbench.records.storage.run_store import unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Item = dict[str, Any]
THREADS = 8
"""So many keep a processor busy with their answers."""
_RAW = "StepbenchRaw"
_SUCCESS = 200
_NO_PAGE = (ValueError, KeyError, TypeError, AttributeError)
"""Reading an answer that was cut short, or is somebody else's, raises one of these."""


class _Page(NamedTuple):
    items: list[Item]
    following: Callable[[], _Page] | None


class ShardReader:
    """
    Reads whole partitions.

    Args:
        client: a boto3 DynamoDB client of its own, since its answers to Query are then no others' any more.
        table: its name.
    """

    def __init__(self, client: Any, table: str) -> None:  # noqa: ANN401 -- boto3 clients have no common type
        client.meta.events.register("before-parse.dynamodb.Query", _keep_raw, unique_id=_RAW)  # once, of many readers
        self._client = client
        self._table = table

    def items(self, partitions: Iterable[str], attribute: str = "") -> Iterator[Item]:
        """
        Read all items, in no order, with all attributes or this one.

        Of each partition there is one page at most that nobody has taken. Threads end with the iterator.

        Raises:
            RecordsUnavailableError: the table does not answer; names it.
        """
        with ThreadPoolExecutor(THREADS) as pool:
            pages = deque(pool.submit(self._page, partition, attribute) for partition in partitions)
            try:
                while pages:
                    items, following = pages.popleft().result()
                    if following is not None:
                        pages.append(pool.submit(following))
                    yield from items
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _page(self, partition: str, attribute: str, start: Item | None = None) -> _Page:
        query = {
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": partition}},
            "ConsistentRead": True,
            **({"ProjectionExpression": attribute} if attribute else {}),
            **({"ExclusiveStartKey": start} if start else {}),
        }
        try:
            answer = json.loads(self._client.query(TableName=self._table, **query)[_RAW])
            items = [{name: _value(typed) for name, typed in item.items()} for item in answer["Items"]]
            last = answer.get("LastEvaluatedKey")
        except (ClientError, BotoCoreError) as error:
            message = f"results table {self._table}: {error}"
            raise unavailable(message, error) from error
        except _NO_PAGE as error:
            message = f"results table {self._table}: its answer is no page of items ({error!r})"
            raise RecordsUnavailableError(message) from error
        return _Page(items, partial(self._page, partition, attribute, last) if last else None)


def _keep_raw(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Put an answer aside, and an empty one in its place; refusals are botocore's business."""
    if response_dict["status_code"] == _SUCCESS:
        customized_response_dict[_RAW] = response_dict["body"]
        response_dict["body"] = b"{}"


def _value(typed: dict[str, Any]) -> Any:  # noqa: ANN401 -- what an item holds
    for kind, value in typed.items():
        return _READ[kind](value)
    return None


_READ: dict[str, Callable[[Any], Any]] = {
    "S": str,
    "N": int,
    "B": base64.b64decode,
    "BOOL": bool,
    "L": lambda values: [_value(each) for each in values],
}
"""The types that t4 items have."""
