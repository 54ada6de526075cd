"""
Operations as requests to DynamoDB's API, and what its answers say: pure functions.

Source: AWS, Amazon DynamoDB API Reference, version 2012-08-10.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.workload import Kind
from stepbench.drivers.aws_answers import json_error_code, written
from stepbench.drivers.dynamodb_items import Items, form_of
from stepbench.drivers.protocol import Operated, Operation, Outcome
from stepbench.load.products import NUMBERS, attributes_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.wire.connection import Exchange, Sending
    from stepbench.wire.http1 import Answer
    from stepbench.wire.sigv4 import Form

BATCH_ITEMS = 25
"""BatchWriteItem takes no more, nor more than 16 MB: 25 of the largest blobs are 9 MB."""
_GET, _PUT, _UPDATE = form_of("GetItem"), form_of("PutItem"), form_of("UpdateItem")
_BATCH = form_of("BatchWriteItem")
NOT_FOUND = "not_found"


class Call(NamedTuple):
    """One request. `reads`: an answer without an item is a refusal."""

    form: Form
    body: bytes
    reads: bool = False


class Requests:
    """On one table, whose name is encoded once."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._items = Items()
        head = f'{{"TableName":{json.dumps(table)},'
        self._with_key, self._with_item = f'{head}"Key":{{"pk":{{"S":', f'{head}"Item":'

    def of(self, operation: Operation) -> tuple[Call, ...]:
        """
        What has to be sent, one after the other.

        Raises:
            ValueError: a scan, which needs an order of keys.
        """
        match operation.kind:
            case Kind.READ:
                return (self.get(operation.key),)
            case Kind.INSERT | Kind.OVERWRITE:
                return (self._put(operation),)
            case Kind.UPDATE:
                return (self._update(operation),)
            case Kind.READ_MODIFY_WRITE:
                change = self._put(operation) if operation.fields is None else self._update(operation)
                return self.get(operation.key), change
            case _:
                message = f"DynamoDB offers no {operation.kind.name.lower()}"
                raise ValueError(message)

    def get(self, key: str, *, consistent: bool = False) -> Call:
        """GetItem; by default as DynamoDB's, eventually consistent, at half the price."""
        more = ',"ConsistentRead":true' if consistent else ""
        return Call(_GET, f"{self._with_key}{json.dumps(key)}}}}}{more}}}".encode(), reads=True)

    def _put(self, operation: Operation) -> Call:
        return Call(_PUT, f"{self._with_item}{self._record(operation)}}}".encode())

    def _update(self, operation: Operation) -> Call:
        fields = operation.fields or {}
        names = {f"#n{at}": name for at, name in enumerate(fields)}  # "count" is a reserved word
        values = {f":v{at}": {"N" if name in NUMBERS else "S": text} for at, (name, text) in enumerate(fields.items())}
        clause = "SET " + ",".join(f"#n{at}=:v{at}" for at in range(len(fields)))
        more = f'"UpdateExpression":"{clause}","ExpressionAttributeNames":{json.dumps(names)}'
        body = f"{self._with_key}{json.dumps(operation.key)}}}}},{more}"
        return Call(_UPDATE, f'{body},"ExpressionAttributeValues":{json.dumps(values)}}}'.encode())

    def _record(self, operation: Operation) -> str:
        """A record as an item: a blob's value as one text, a product's fields as an attribute each."""
        if operation.fields is None:
            return self._items.text(operation.key, operation.value)
        return f'{{"pk":{{"S":{json.dumps(operation.key)}}},{attributes_json(operation.fields)[1:]}'

    def batch(self, operations: Sequence[Operation]) -> Call:
        """BatchWriteItem of all these."""
        puts = ",".join(f'{{"PutRequest":{{"Item":{self._record(each)}}}}}' for each in operations)
        return Call(_BATCH, f'{{"RequestItems":{{{json.dumps(self._table)}:[{puts}]}}}}'.encode())


def operated(exchange: Exchange, *, reads: bool) -> Operated:
    """What came of a call."""
    result = Operated(*written(exchange, json_error_code))
    if reads and result.outcome is Outcome.OK and exchange.answer and b'"Item"' not in exchange.answer.body:
        return result._replace(outcome=Outcome.FAILED, error=NOT_FOUND)
    return result


def read(sending: Sending, t2_ns: int, answer: Answer | None, error: str) -> Operated:
    """What came of a call that reads."""
    return operated(sending.exchange(t2_ns, answer, error), reads=True)


def changed(sending: Sending, t2_ns: int, answer: Answer | None, error: str) -> Operated:
    """What came of any other."""
    return operated(sending.exchange(t2_ns, answer, error), reads=False)


def unprocessed(exchange: Exchange) -> Mapping[str, Any]:
    """What of an acknowledged batch DynamoDB has left undone, as RequestItems has it; mostly nothing."""
    answer = exchange.answer
    if answer is None or b'"UnprocessedItems"' not in answer.body:
        return {}
    left: Mapping[str, Any] = json.loads(answer.body)["UnprocessedItems"]
    return left


def again(left: Mapping[str, Any]) -> Call:
    """BatchWriteItem of what was left."""
    return Call(_BATCH, json.dumps({"RequestItems": left}).encode())
