"""The stand-in for Aurora's `aws_lambda`: what it sends, what it understands, and that it never sends twice."""

from __future__ import annotations

import base64
import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.samples.lambda_api import LambdaApi, lambda_api

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench_tools.local.stores import LocalStore

pytestmark = pytest.mark.stores
INVOKE = "SELECT * FROM aws_lambda.invoke('receiver', '{\"a\": 1}'::json)"


@pytest.fixture
def api() -> Iterator[LambdaApi]:
    """Yield a Lambda API under the test's control."""
    with lambda_api() as server:
        yield server


@pytest.fixture
def session(postgresql_server: LocalStore, api: LambdaApi) -> Iterator[psycopg.Connection[Any]]:
    """Yield a session with the extension, whose calls go to `api`."""
    address, _, database = postgresql_server.endpoint.partition("/")
    host, _, port = address.partition(":")
    with psycopg.connect(host=host, port=int(port), dbname=database, user="postgres", autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS aws_lambda CASCADE")
        _call_at(connection, api.endpoint)
        yield connection


def _call_at(session: psycopg.Connection[Any], endpoint: str) -> None:
    session.execute("SELECT set_config('aws_lambda.endpoint_override', %s, false)", (endpoint,))


def _row(session: psycopg.Connection[Any], query: str) -> tuple[Any, ...]:
    row = session.execute(query.encode()).fetchone()
    assert row is not None
    return tuple(row)


_OPTIONS_AND_RESULT = (
    "invocation_type text DEFAULT 'RequestResponse'::text, log_type text DEFAULT 'None'::text, "
    "context json DEFAULT NULL::json, qualifier character varying DEFAULT NULL::character varying, "
    "OUT status_code integer, OUT payload json, OUT executed_version text, OUT log_result text"
)
AURORA_SIGNATURES = {
    f"function_name text, payload json, region text DEFAULT NULL::text, {_OPTIONS_AND_RESULT}",
    f"function_name aws_commons._lambda_function_arn_1, payload json, {_OPTIONS_AND_RESULT}",
}
"""Aurora User Guide, "AWS Lambda function and parameter reference", as pg_get_function_arguments writes them."""


def test_the_signatures_are_auroras(session: psycopg.Connection[Any]) -> None:
    """The SQL that the driver installs has to mean the same here and on Aurora."""
    rows = session.execute(
        "SELECT pg_get_function_arguments(oid) FROM pg_proc WHERE proname = 'invoke' "
        "AND pronamespace = 'aws_lambda'::regnamespace"
    ).fetchall()
    in_jsonb = {text.replace("json", "jsonb") for text in AURORA_SIGNATURES}
    assert {row[0] for row in rows} == AURORA_SIGNATURES | in_jsonb


@pytest.mark.parametrize(
    ("call", "payload"),
    [
        ("'receiver', '{\"a\": 1}'::json", b'{"a": 1}'),
        ("'receiver', '{\"a\":1}'::jsonb", b'{"a": 1}'),
        ("aws_commons.create_lambda_function_arn('receiver'), '[]'::json", b"[]"),
        ("aws_commons.create_lambda_function_arn('receiver', 'us-east-1'), '[]'::jsonb", b"[]"),
    ],
)
def test_every_overload_posts_its_payload(
    session: psycopg.Connection[Any], api: LambdaApi, call: str, payload: bytes
) -> None:
    """The payload is what the receiver parses; json travels as written, jsonb as PostgreSQL prints it."""
    row = _row(session, f"SELECT * FROM aws_lambda.invoke({call}, invocation_type => 'Event')")  # noqa: S608 -- ours
    assert row == (202, None, None, None)
    assert [(each.path, each.body) for each in api.invocations] == [
        ("/2015-03-31/functions/receiver/invocations", payload)
    ]


def test_options_travel_where_the_api_expects_them(session: psycopg.Connection[Any], api: LambdaApi) -> None:
    """Lambda's Invoke API: qualifier in the query, type and log type as headers, context in base64."""
    _row(
        session,
        "SELECT * FROM aws_lambda.invoke('arn:aws:lambda:eu-west-1:000000000000:function:f', '{}'::json, NULL, "
        "'Event', 'Tail', '{\"custom\": 12}', '$LATEST')",
    )
    (invocation,) = api.invocations
    assert invocation.path == (
        "/2015-03-31/functions/arn%3Aaws%3Alambda%3Aeu-west-1%3A000000000000%3Afunction%3Af/invocations"
        "?Qualifier=%24LATEST"
    )
    assert (invocation.headers["x-amz-invocation-type"], invocation.headers["x-amz-log-type"]) == ("Event", "Tail")
    assert base64.b64decode(invocation.headers["x-amz-client-context"]) == b'{"custom": 12}'
    assert "/eu-west-1/lambda/" in invocation.headers["authorization"]


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n{"b": 2}',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\n{"b\r\n5\r\n": 2}\r\n0\r\nTrailer: t\r\n\r\n',
        b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length:8 \r\n\r\n{"b": 2}',
        b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 8\r\n\r\n{"b": 2}',
    ],
    ids=["length", "chunked", "continue", "close"],
)
def test_the_answer_is_read_to_its_end_and_no_further(
    session: psycopg.Connection[Any], api: LambdaApi, answer: bytes
) -> None:
    """A wrong end of the body would leave bytes that the next answer on the kept connection begins with."""
    api.answer = lambda _: answer
    first, second = _row(session, INVOKE), _row(session, INVOKE)
    assert first == second == (200, {"b": 2}, None, None)


def test_an_answer_without_length_ends_with_the_connection(session: psycopg.Connection[Any], api: LambdaApi) -> None:
    """HTTP/1.0 servers answer so; waiting for more would run into the time-out."""

    def answer(_: object) -> bytes:
        threading.Timer(0.05, api.hang_up).start()
        return b"HTTP/1.0 200 OK\r\n\r\n[1]"

    api.answer = answer
    assert _row(session, INVOKE) == (200, [1], None, None)


def test_version_and_log_come_back(session: psycopg.Connection[Any], api: LambdaApi) -> None:
    """Aurora returns both, the log in base64."""
    api.answer = lambda _: (
        b"HTTP/1.1 200 OK\r\nX-Amz-Executed-Version: $LATEST\r\nX-Amz-Log-Result: TE9H\r\nContent-Length: 0\r\n\r\n"
    )
    assert _row(session, INVOKE) == (200, None, "$LATEST", "TE9H")


def test_the_connection_is_kept(session: psycopg.Connection[Any], api: LambdaApi) -> None:
    """A connect for every event would add its round trip to every latency."""
    for _ in range(5):
        _row(session, INVOKE)
    assert {each.connection for each in api.invocations} == {0}


def test_a_connection_that_the_server_closed_is_replaced_unseen(
    session: psycopg.Connection[Any], api: LambdaApi
) -> None:
    """Servers close idle connections; an INSERT must not fail for that, nor call twice."""
    _row(session, INVOKE)
    api.hang_up()
    assert _row(session, INVOKE)[0] == 202
    assert [each.connection for each in api.invocations] == [0, 1]


def test_a_request_is_never_sent_again(session: psycopg.Connection[Any], api: LambdaApi) -> None:
    """The function may have run: sending again would make a duplicate that no store has made."""
    _row(session, INVOKE)
    api.answer = lambda _: None
    with pytest.raises(psycopg.Error, match="Connection closed before the answer was complete"):
        _row(session, INVOKE)
    assert len(api.invocations) == 2


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 11\r\n\r\nno function", "HTTP 404: no function"),
        (b"HTTP/1.1 429 Too Many\r\nContent-Length: 0\r\n\r\n", "HTTP 429: "),
        (b"SSH-2.0-OpenSSH\r\n", "Malformed response: status line"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Malformed response: length"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", "Malformed response: length"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabcd\r\n", "Malformed response: chunk"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, "Malformed response: endless line"),
    ],
)
def test_what_is_no_success_is_an_error(
    session: psycopg.Connection[Any], api: LambdaApi, answer: bytes, detail: str
) -> None:
    """Aurora raises "invoke API failed" then, and the INSERT is rolled back; the next call works again."""
    usual = api.answer
    api.answer = lambda _: answer
    with pytest.raises(psycopg.errors.ExternalRoutineException, match="invoke API failed") as raised:
        _row(session, INVOKE)
    assert raised.value.diag.message_detail == f"AWS Lambda client returned '{detail}'."
    api.answer = usual
    assert _row(session, INVOKE)[0] == 202


def test_bytes_that_are_no_text_are_an_error(session: psycopg.Connection[Any], api: LambdaApi) -> None:
    """Unchecked, they would be a value in the database that cannot be dumped."""
    api.answer = lambda _: b'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"\xff"'
    with pytest.raises(psycopg.errors.CharacterNotInRepertoire):
        _row(session, INVOKE)


def test_a_statement_timeout_interrupts_the_wait(session: psycopg.Connection[Any], api: LambdaApi) -> None:
    """The backend must stay cancellable; and the half-done exchange must not be taken for the next one's answer."""
    release = threading.Event()

    def stall(_: object) -> bytes:
        release.wait(10)
        return b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"l8"'

    api.answer = stall
    session.execute("SET statement_timeout = 200")
    with pytest.raises(psycopg.errors.QueryCanceled):
        _row(session, INVOKE)
    release.set()
    api.answer = lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[2]"
    session.execute("SET statement_timeout = 0")
    assert _row(session, INVOKE) == (200, [2], None, None)


def test_nobody_listening_is_an_error_in_auroras_words(session: psycopg.Connection[Any], api: LambdaApi) -> None:
    """The troubleshooting text of Aurora's guide names this message."""
    api.close()
    with pytest.raises(psycopg.errors.ExternalRoutineException, match="Unable to connect to endpoint"):
        _row(session, INVOKE)


@pytest.mark.parametrize("endpoint", ["", "nonsense", "10.0.0.1:80", "169.254.169.254:80", "example.org:80"])
def test_only_loopback_is_called(session: psycopg.Connection[Any], endpoint: str) -> None:
    """A stand-in that posts elsewhere would carry events out of the machine."""
    _call_at(session, endpoint)
    with pytest.raises(psycopg.Error, match=r"endpoint_override"):
        _row(session, INVOKE)


def test_an_endpoint_may_be_a_url_with_a_name(session: psycopg.Connection[Any], api: LambdaApi) -> None:
    """AWS_ENDPOINT_URL is a URL, and often says localhost."""
    _call_at(session, f"http://localhost:{api.endpoint.rpartition(':')[2]}/")
    assert _row(session, INVOKE)[0] == 202


@pytest.mark.parametrize(
    "call",
    [
        "aws_lambda.invoke(NULL::text, '{}'::json)",
        "aws_lambda.invoke('f', NULL::json)",
        "aws_lambda.invoke('f', '{}'::json, NULL, 'event')",
        "aws_lambda.invoke('f', '{}'::json, NULL, 'Event', 'tail')",
        "aws_lambda.invoke('arn:aws:lambda:eu-west-1:000000000000:function:f', '{}'::json, 'us-east-1')",
    ],
    ids=["no name", "no payload", "type", "log type", "region"],
)
def test_arguments_that_aurora_refuses_are_refused(session: psycopg.Connection[Any], api: LambdaApi, call: str) -> None:
    """What passes here has to pass on Aurora; nothing may be sent for a call that cannot be right."""
    with pytest.raises(psycopg.errors.DataError):
        _row(session, f"SELECT * FROM {call}")  # noqa: S608 -- ours
    assert api.invocations == []
