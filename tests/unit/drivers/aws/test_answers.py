"""What S3's and DynamoDB's answers mean for a write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.drivers.aws.answers import json_error_code, write_result, xml_error_code
from stepbench.model.errors import NO_ANSWER, WITHDRAWN
from stepbench.model.request import Outcome, Result
from stepbench.wire.http1.connection import ABANDONED, HttpExchange
from stepbench.wire.http1.messages import HttpAnswer

SLOW_DOWN = b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>'
THROTTLED = b'{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"m"}'


def answered(status: int, body: bytes = b"", **headers: str) -> HttpExchange:
    """Return an exchange that got an answer."""
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return HttpExchange(10, 20, HttpAnswer(status, head.encode(), body, reusable=True))


def test_an_acknowledgement_carries_the_token() -> None:
    """The version id is all that the receiver knows of an update."""
    exchange = answered(200, x_amz_version_id="v1")
    assert write_result(exchange, xml_error_code, b"x-amz-version-id") == Result(10, 20, Outcome.OK, "v1")


def test_a_store_without_tokens_gives_none() -> None:
    """DynamoDB answers `{}`."""
    assert write_result(answered(200, b"{}"), json_error_code) == Result(10, 20, Outcome.OK)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (400, Outcome.FAILED),
        (403, Outcome.FAILED),
        (307, Outcome.FAILED),
        (503, Outcome.FAILED),
        (500, Outcome.UNKNOWN),
        (502, Outcome.UNKNOWN),
        (504, Outcome.UNKNOWN),
    ],
)
def test_a_refusal_is_failed_and_a_breakdown_unknown(status: int, outcome: Outcome) -> None:
    """FAILED promises that nothing was written; a server that broke down half way cannot promise that."""
    result = write_result(answered(status), json_error_code)
    assert (result.outcome, result.error) == (outcome, f"HTTP {status}")


def test_the_services_own_code_is_kept() -> None:
    """Throttling is the most interesting failure there is, and both services have their own word for it."""
    assert write_result(answered(503, SLOW_DOWN), xml_error_code).error == "SlowDown"
    assert write_result(answered(400, THROTTLED), json_error_code).error == "ProvisionedThroughputExceededException"
    assert json_error_code(b'{"__type": "ValidationException"}') == "ValidationException"


@pytest.mark.parametrize(
    ("reason", "sent", "outcome", "error"),
    [
        ("timeout", True, Outcome.UNKNOWN, "timeout"),
        ("timeout", False, Outcome.FAILED, "timeout"),
        (ABANDONED, True, Outcome.UNKNOWN, NO_ANSWER),
        (ABANDONED, False, Outcome.FAILED, WITHDRAWN),
    ],
)
def test_without_an_answer_it_matters_whether_it_was_sent(
    reason: str, outcome: Outcome, error: str, *, sent: bool
) -> None:
    """An UNKNOWN may arrive; a FAILED that arrives is a contradiction, and a WITHDRAWN was never offered."""
    exchange = HttpExchange(10, 20, None, reason, sent=sent)
    assert write_result(exchange, xml_error_code) == Result(10, 20, outcome, error=error)


@given(st.binary(max_size=200))
def test_codes_from_any_body_are_short_words(body: bytes) -> None:
    """Codes are counted and printed; a hostile body must not fill the report, nor break the writer."""
    wrapped = (b"<Code>" + body + b"</Code>", b'"__type":"' + body + b'"', body)
    for code in (*map(xml_error_code, wrapped), *map(json_error_code, wrapped)):
        assert len(code) <= 64
        assert not code or code.replace(".", "a").isalnum()
