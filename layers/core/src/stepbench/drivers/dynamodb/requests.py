"""
Operations as requests to DynamoDB's API, and what its answers say: pure functions.

Source: AWS, Amazon DynamoDB API Reference, version 2012-08-10.
"""

from __future__ import annotations

import json
from json.encoder import encode_basestring as quoted
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.workload import Kind
from stepbench.drivers.aws.answers import json_error_code, write_result
from stepbench.drivers.dynamodb.items import PUT, ItemRequests, action_form
from stepbench.model.errors import NOT_FOUND
from stepbench.model.request import Outcome, Request, Result
from stepbench.workload.products import NUMBERS, attributes_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stepbench.wire.http1.connection import HttpExchange, HttpRequest
    from stepbench.wire.http1.messages import HttpAnswer
    from stepbench.wire.http1.sigv4 import Form
    from stepbench.workload.checks import RecordCheck

BATCH_ITEMS = 25
"""BatchWriteItem takes no more, nor more than 16 MB: 25 of the largest blobs are 9 MB."""
_GET, _UPDATE, _BATCH = action_form("GetItem"), action_form("UpdateItem"), action_form("BatchWriteItem")


class ApiCall(NamedTuple):
    """One request to DynamoDB's API. `reads`: the key of the item that it gets, "" if it gets none."""

    form: Form
    body: bytes
    reads: str = ""


class OperationRequests(ItemRequests):
    """Requests to one table for all kinds of operation that DynamoDB offers."""

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self._table = json.dumps(table)

    def calls(self, operation: Request) -> tuple[ApiCall, ...]:
        """
        Return what has to be sent, one after the other.

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

    def get(self, key: str, *, consistent: bool = False) -> ApiCall:
        """Return a GetItem; by default as DynamoDB's, eventually consistent, at half the price."""
        more = ',"ConsistentRead":true' if consistent else ""
        return ApiCall(_GET, f"{self._with_key}{quoted(key)}}}}}{more}}}".encode(), key)

    def batch(self, operations: Sequence[Request]) -> ApiCall:
        """Return a BatchWriteItem of all these."""
        puts = ",".join(f'{{"PutRequest":{{"Item":{self._format_record(each)}}}}}' for each in operations)
        return ApiCall(_BATCH, f'{{"RequestItems":{{{self._table}:[{puts}]}}}}'.encode())

    def _put(self, operation: Request) -> ApiCall:
        return ApiCall(PUT, f"{self._with_item}{self._format_record(operation)}}}".encode())

    def _update(self, operation: Request) -> ApiCall:
        fields = operation.fields or {}
        names = {f"#n{at}": name for at, name in enumerate(fields)}  # "count" is a reserved word
        values = {f":v{at}": {"N" if name in NUMBERS else "S": text} for at, (name, text) in enumerate(fields.items())}
        clause = "SET " + ",".join(f"#n{at}=:v{at}" for at in range(len(fields)))
        more = f'"UpdateExpression":"{clause}","ExpressionAttributeNames":{json.dumps(names)}'
        body = f"{self._with_key}{quoted(operation.key)}}}}},{more}"
        return ApiCall(_UPDATE, f'{body},"ExpressionAttributeValues":{json.dumps(values)}}}'.encode())

    def _format_record(self, operation: Request) -> str:
        """Return a record as an item: a blob's value as one text, a product's fields as an attribute each."""
        if operation.fields is None:
            return self.format_item(operation.key, operation.value)
        return f'{{"pk":{{"S":{quoted(operation.key)}}},{attributes_json(operation.fields)[1:]}'


def call_result(exchange: HttpExchange, reads: str = "", check: RecordCheck | None = None) -> Result:
    """Return what came of a call. `reads`: see `ApiCall`; `check`: of what was read, unless it is only looked for."""
    result = write_result(exchange, json_error_code)
    if not reads or result.outcome is not Outcome.OK or exchange.answer is None:
        return result
    body = exchange.answer.body
    error = NOT_FOUND if b'"Item"' not in body else "" if check is None else _judge(check, reads, body)
    return result._replace(outcome=Outcome.FAILED, error=error) if error else result


def item_read(  # noqa: PLR0913, PLR0917 -- what is read, and what a request's `finish` is given
    check: RecordCheck, reads: str, sending: HttpRequest, t2_ns: int, answer: HttpAnswer | None, error: str
) -> Result:
    """Return the result of a call that reads."""
    return call_result(sending.exchange(t2_ns, answer, error), reads, check)


def item_changed(sending: HttpRequest, t2_ns: int, answer: HttpAnswer | None, error: str) -> Result:
    """Return the result of a call that only writes."""
    return call_result(sending.exchange(t2_ns, answer, error))


def _judge(check: RecordCheck, key: str, body: bytes) -> str:
    """
    Return the error of what an answer to GetItem has, "" where it is right.

    No text of ours needs an escape, so that texts are what is between quotation marks; a parser takes four times as
    long. DynamoDB writes numbers without the zeros at their end: a price may have fewer characters than were sent.
    """
    if (value := body.find(b'"value"')) >= 0:
        start = body.find(b'"', body.find(b'"S"', value) + len(b'"S"')) + 1
        return check.read(key, body[start : body.find(b'"', start)])
    parts = body[body.find(b'"Item"') :].split(b'"')
    found = dict(zip(parts[3::6], parts[7::6], strict=False))
    found.pop(b"pk", None)
    whole, _, cents = found.get(b"price", b"").partition(b".")
    found[b"price"] = b"%b.%b" % (whole, cents.ljust(2, b"0"))
    return check.read(key, found)


def unprocessed(exchange: HttpExchange) -> Mapping[str, Any]:
    """Return what of an acknowledged batch DynamoDB has left undone, as RequestItems has it; mostly nothing."""
    answer = exchange.answer
    if answer is None or b'"UnprocessedItems"' not in answer.body:
        return {}
    left: Mapping[str, Any] = json.loads(answer.body)["UnprocessedItems"]
    return left


def batch_of_unprocessed(left: Mapping[str, Any]) -> ApiCall:
    """Return a BatchWriteItem of what was left."""
    return ApiCall(_BATCH, json.dumps({"RequestItems": left}).encode())
