"""Answers of AWS services to writes, as results: pure functions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepbench.model.errors import NO_ANSWER, WITHDRAWN
from stepbench.model.request import Outcome, Result
from stepbench.wire.http1.connection import ABANDONED

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepbench.wire.http1.connection import HttpExchange

_UNDECIDED = frozenset({500, 502, 504})
"""The server, or one between, broke off in the middle: AWS says of these that the write may have happened."""
_XML_CODE = re.compile(rb"<Code>([A-Za-z0-9.]{1,64})</Code>")
_JSON_TYPE = re.compile(rb'"__type"\s*:\s*"(?:[A-Za-z0-9_.]*#)?([A-Za-z0-9.]{1,64})"')


def write_result(exchange: HttpExchange, error_code: Callable[[bytes], str], token_header: bytes = b"") -> Result:
    """
    Return the result of a write.

    Args:
        exchange: what came of its request.
        error_code: finds the service's own code in the body of a refusal; "" if there is none.
        token_header: header (in lower case) with the store's name for the change, if there is one.
    """
    t1_ns, t2_ns, answer, error, sent = exchange
    if answer is None:
        if error == ABANDONED:
            error = NO_ANSWER if sent else WITHDRAWN
        return Result(t1_ns, t2_ns, Outcome.UNKNOWN if sent else Outcome.FAILED, error=error)
    if 200 <= answer.status < 300:  # noqa: PLR2004 -- the class of successes
        token = answer.headers.get(token_header, b"").decode("latin-1") if token_header else ""
        return Result(t1_ns, t2_ns, Outcome.OK, token)
    outcome = Outcome.UNKNOWN if answer.status in _UNDECIDED else Outcome.FAILED
    return Result(t1_ns, t2_ns, outcome, error=error_code(answer.body) or f"HTTP {answer.status}")


def xml_error_code(body: bytes) -> str:
    """Return S3's code, such as "SlowDown"."""
    found = _XML_CODE.search(body)
    return found[1].decode() if found else ""


def json_error_code(body: bytes) -> str:
    """Return DynamoDB's code without its namespace, such as "ThrottlingException"."""
    found = _JSON_TYPE.search(body)
    return found[1].decode() if found else ""
