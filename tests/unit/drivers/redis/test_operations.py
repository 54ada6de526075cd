"""Operations as Redis commands, what answers mean, and which server is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.contracts.operations_subject import operations_spec
from tests.support.fake_clock import FakeClock

from stepbench.contracts.workload import Kind, Workload
from stepbench.drivers.redis.access import RedisAccess
from stepbench.drivers.redis.commands import commands_of, judge
from stepbench.errors import PlanError
from stepbench.model.errors import connect_error
from stepbench.model.request import Outcome, Request
from stepbench.settings import Settings
from stepbench.wire.resp import ErrorReply, Node
from stepbench.wire.resp.connection import RespAnswer
from stepbench.workload.checks import RecordCheck
from stepbench.workload.operations import Contents
from stepbench.workload.products import hash_fields

if TYPE_CHECKING:
    from stepbench.wire.resp import Reply

BLOBS = Workload()
PRODUCTS = Workload.model_validate({"record": {"shape": "product"}})
BLOB, PRODUCT = (Contents(each, "tag").preloaded(3) for each in (BLOBS, PRODUCTS))
READ_BLOB = RecordCheck(BLOBS, "tag"), BLOB.key
READ_PRODUCT = RecordCheck(PRODUCTS, "tag"), PRODUCT.key
WRITE = None, ""
SETTINGS = Settings(
    results_table="t",
    results_bucket="b",
    redis_endpoint="plain.internal",
    redis_tls_endpoint="tls.internal:6380",
    redis_secret_arn="arn:secret",  # noqa: S106 -- a name
)
FIELDS = {"count": "7", "price": "1.50"}


def access(settings: Settings = SETTINGS, **target: Any) -> RedisAccess:  # noqa: ANN401 -- a plan's
    """Return how a trial with this target reaches its server."""
    return RedisAccess(operations_spec({"store": "redis", **target}), settings, FakeClock())


@pytest.mark.parametrize(
    ("operation", "product", "commands"),
    [
        (Request(Kind.READ, "k"), False, ((b"GET", b"k"),)),
        (Request(Kind.READ, "k"), True, ((b"HGETALL", b"k"),)),
        (Request(Kind.INSERT, "k", b"v"), False, ((b"SET", b"k", b"v"),)),
        (Request(Kind.OVERWRITE, "k", b"v"), False, ((b"SET", b"k", b"v"),)),
        (Request(Kind.READ_MODIFY_WRITE, "k", b"v"), False, ((b"GET", b"k"), (b"SET", b"k", b"v"))),
        (Request(Kind.UPDATE, "k", b"{}", FIELDS), True, ((b"HSET", b"k", b"count", b"7", b"price", b"1.50"),)),
        (Request(Kind.SCAN, "k", rows=5), False, ()),
    ],
)
def test_an_operation_is_these_commands(
    operation: Request,
    product: bool,  # noqa: FBT001
    commands: tuple[tuple[bytes, ...], ...],
) -> None:
    """What is measured is no more and no less than what the plan says."""
    assert commands_of(operation, product=product) == commands


@pytest.mark.parametrize(
    ("reply", "asked", "expected"),
    [
        ("OK", WRITE, (Outcome.OK, "")),
        (0, WRITE, (Outcome.OK, "")),
        (BLOB.value, READ_BLOB, (Outcome.OK, "")),
        (b"", READ_BLOB, (Outcome.FAILED, "wrong_value")),
        (1, READ_BLOB, (Outcome.FAILED, "wrong_value")),
        (None, READ_BLOB, (Outcome.FAILED, "not_found")),
        (hash_fields(PRODUCT.fields or {}), READ_PRODUCT, (Outcome.OK, "")),
        (hash_fields(PRODUCT.fields or {})[:-1], READ_PRODUCT, (Outcome.FAILED, "wrong_value")),
        ([b"name", 1] * 12, READ_PRODUCT, (Outcome.FAILED, "wrong_value")),
        (["x" * 180, [b""] * 180], READ_PRODUCT, (Outcome.FAILED, "wrong_value")),
        (1, READ_PRODUCT, (Outcome.FAILED, "wrong_value")),
        ([], READ_PRODUCT, (Outcome.FAILED, "not_found")),
        (ErrorReply("OOM", "command not allowed"), WRITE, (Outcome.FAILED, "OOM")),
        (ErrorReply("OOM", "command not allowed"), READ_BLOB, (Outcome.FAILED, "OOM")),
    ],
)
def test_an_answer_means_this(
    reply: Reply, asked: tuple[RecordCheck | None, str], expected: tuple[Outcome, str]
) -> None:
    """HSET says 0 where no field is new; no record is empty."""
    assert judge(RespAnswer(1, 2, reply), *asked) == expected


def test_what_was_never_sent_has_not_happened() -> None:
    """All else without an answer may have."""
    assert judge(RespAnswer(1, 2, None, "timeout"), *READ_BLOB) == (Outcome.UNKNOWN, "timeout")
    assert judge(RespAnswer(1, 2, None, "timeout", sent=False), *READ_BLOB) == (Outcome.FAILED, "timeout")


def test_without_a_connection_the_reason_is_short() -> None:
    """Reports count errors by it, so it holds no address and no time."""
    assert connect_error(TimeoutError()) == "connect: timeout"
    assert connect_error(ConnectionRefusedError(111, "Connect call failed ('10.0.0.1', 6379)")) == "connect: refused"


def test_tls_has_its_own_endpoint_where_there_is_one() -> None:
    """ElastiCache has one port for both kinds of clients only while it is migrated."""
    assert access().seed == Node("plain.internal", 6379)
    assert access(tls=True).seed == Node("tls.internal", 6380)
    one = SETTINGS.model_copy(update={"redis_tls_endpoint": ""})
    assert access(one, tls=True).seed == Node("plain.internal", 6379)


def test_a_plans_own_server_never_sees_the_stacks_secret() -> None:
    """Plans are data from other teams."""
    assert access()._login.secret_arn == SETTINGS.redis_secret_arn
    assert access(endpoint="theirs:1")._login.secret_arn == ""


def test_a_database_is_named_by_its_number() -> None:
    """Another name would be dropped in silence, and another trial's keys deleted."""
    assert access(endpoint="host:1/3")._database == 3
    with pytest.raises(PlanError, match="no number of a database"):
        access(endpoint="host:1/users")


def test_a_certificate_is_for_the_name_that_we_were_given() -> None:
    """A cluster tells its nodes by address; without the name any certificate of the authority would do."""
    named = access()
    assert named._server_name(Node("10.0.0.7", 6379)) == "plain.internal"
    assert named._server_name(Node("node-1.internal", 6379)) == "node-1.internal"
    assert access(endpoint="10.0.0.1:6379")._server_name(Node("10.0.0.7", 6379)) == "10.0.0.7"
