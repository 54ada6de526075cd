"""How AWS is addressed, and what is said when it cannot be."""

from __future__ import annotations

import asyncio
import threading

import pytest
from botocore.parsers import create_parser
from botocore.session import get_session
from tests.samples.records import trial_spec
from tests.support.contracts.trigger_subject import contract_spec
from tests.support.fake_clock import FakeClock

from stepbench.contracts.phase import LoadStep
from stepbench.contracts.target import DynamoDbTarget
from stepbench.drivers.aws import AwsAccess, bucket_address, limits_of, measured_url
from stepbench.errors import PlanError, TargetUnavailableError, TargetUnreachableError
from stepbench.settings import Settings
from stepbench.wire.http1.pool import HttpAddress, PoolLimits

SETTINGS = Settings(results_table="r", results_bucket="r", target_bucket="b")


@pytest.mark.parametrize(
    ("url", "bucket", "host", "before_key"),
    [
        ("https://s3.eu-west-1.amazonaws.com", "b", "b.s3.eu-west-1.amazonaws.com", ""),
        ("https://s3.cn-north-1.amazonaws.com.cn", "b", "b.s3.cn-north-1.amazonaws.com.cn", ""),
        ("https://s3.eu-west-1.amazonaws.com", "b.c", "s3.eu-west-1.amazonaws.com", "/b.c"),
        ("https://minio.example", "b", "minio.example", "/b"),
        ("https://dynamodb.us-east-1.amazonaws.com", "", "dynamodb.us-east-1.amazonaws.com", ""),
    ],
)
def test_the_bucket_is_named_where_the_server_looks_for_it(url: str, bucket: str, host: str, before_key: str) -> None:
    """AWS serves new buckets by host name only; local servers know no wildcard names."""
    assert bucket_address(url, bucket) == (HttpAddress(host, 443, tls=True), before_key)


@pytest.mark.parametrize(
    ("url", "tls", "measured"),
    [
        ("https://dynamodb.eu-west-1.amazonaws.com", None, "https://dynamodb.eu-west-1.amazonaws.com"),
        ("https://dynamodb.eu-west-1.amazonaws.com", True, "https://dynamodb.eu-west-1.amazonaws.com"),
        ("https://dynamodb.eu-west-1.amazonaws.com", False, "http://dynamodb.eu-west-1.amazonaws.com"),
        ("http://127.0.0.1:4566", None, "http://127.0.0.1:4566"),
        ("http://127.0.0.1:4566", False, "http://127.0.0.1:4566"),
    ],
)
def test_the_load_goes_without_tls_only_where_the_plan_says_so(url: str, tls: bool | None, measured: str) -> None:  # noqa: FBT001 -- a case
    """Tables are made by HTTPS all the same."""
    assert measured_url(url, tls=tls) == measured


def test_tls_that_is_not_there_is_no_plain_http() -> None:
    """The numbers would be taken for those with TLS."""
    with pytest.raises(TargetUnreachableError, match="4566 speaks plain HTTP"):
        measured_url("http://127.0.0.1:4566", tls=True)


async def test_missing_credentials_are_named_as_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """'403' a thousand times over would send the user to the bucket's policy."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", raising=False)
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", raising=False)
    access = AwsAccess("s3", contract_spec({"store": "s3"}), SETTINGS, FakeClock(), bucket="b")
    with pytest.raises(TargetUnavailableError, match="no AWS credentials"):
        await access.open()
    await access.close()


@pytest.mark.parametrize(
    ("rate_per_s", "most", "warm"), [(20, 256, 16), (6_000, 256, 24), (15_000, 256, 60), (15_000, 40, 40)]
)
def test_a_fast_writer_connects_ahead_for_a_standstill(rate_per_s: float, most: int, warm: int) -> None:
    """What becomes due meanwhile needs a connection each."""
    plan = trial_spec(
        DynamoDbTarget(store="dynamodb"), LoadStep(rate_per_s=rate_per_s, duration_s=1), max_in_flight=most
    ).offered
    assert limits_of(plan, 5) == PoolLimits(connections=most, answer_s=5, warm=warm)


@pytest.mark.parametrize(
    ("endpoint", "emulator", "provider"),
    [
        (None, "", "Amazon S3"),
        (None, "MiniStack 1.5.33", "MiniStack 1.5.33"),
        ("http://10.0.0.7:9000", "MiniStack 1.5.33", "S3 API at 10.0.0.7:9000"),
    ],
)
def test_the_provider_is_who_answers(endpoint: str | None, emulator: str, provider: str) -> None:
    """An emulated latency that is printed as Amazon's is the worst thing that a report can say."""
    settings = SETTINGS.model_copy(update={"emulator": emulator})
    access = AwsAccess("s3", contract_spec({"store": "s3", "endpoint": endpoint}), settings, FakeClock())
    assert access.provider("Amazon S3") == provider


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"Table": {"KeySchema": 5}}'])
async def test_an_answer_at_which_awss_library_breaks_is_the_stores(body: bytes) -> None:
    """A RecursionError of botocore's was told raw, as if the mistake were ours."""
    access = AwsAccess("dynamodb", contract_spec({"store": "dynamodb"}), SETTINGS, FakeClock())
    shape = get_session().get_service_model("dynamodb").operation_model("DescribeTable").output_shape
    assert shape is not None
    answer = {"status_code": 200, "headers": {}, "body": body}
    with pytest.raises(TargetUnavailableError, match=r"^dynamodb: .*library cannot read \((Recursion|Type)Error"):
        await access.call(create_parser("json").parse, answer, shape)


async def test_what_we_refuse_ourselves_stays_what_it_is() -> None:
    """A plan's address that is forbidden is no store that is not ready."""
    access = AwsAccess("dynamodb", contract_spec({"store": "dynamodb"}), SETTINGS, FakeClock())

    def refuse() -> None:
        raise PlanError([])

    with pytest.raises(PlanError):
        await access.call(refuse)


async def test_a_cancelled_call_ends_when_its_thread_has() -> None:
    """CreateTable goes on all the same: a table that is there after its caller has cleared up would be nobody's."""
    access = AwsAccess("dynamodb", contract_spec({"store": "dynamodb"}), SETTINGS, FakeClock())
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def create_table() -> None:
        begun.set()
        may_end.wait(10)
        ended.set()

    calling = asyncio.create_task(access.call(create_table))
    await asyncio.to_thread(begun.wait, 10)
    calling.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not calling.done()
    may_end.set()
    await asyncio.wait({calling})
    assert calling.cancelled()
    assert ended.is_set()
