"""S3Driver against the emulator: the contract, and what S3 alone has."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError
from tests.integration.drivers.subjects import NO_SERVER, SubjectFixture
from tests.support.contracts.filter import DELIVERY_LIMIT_S, FilterContract
from tests.support.contracts.life import running
from tests.support.contracts.trigger import TriggerContract
from tests.support.contracts.trigger_subject import contract_spec, contract_write

from stepbench.clock import AnchoredClock
from stepbench.contracts.workload import Kind
from stepbench.drivers.protocol import Driver
from stepbench.drivers.s3.trigger import S3Driver
from stepbench.errors import TargetUnavailableError
from stepbench.model.pending import CoroutineRequest, perform, result_of
from stepbench.model.request import Outcome, PendingRequest, Request, Result

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tests.integration.drivers.conftest import Receiving
    from tests.support.contracts.filter import Arrived

    from stepbench.contracts.plan import TrialSpec
    from stepbench.services import Services
    from stepbench.settings import Settings

pytestmark = pytest.mark.emulator


class S3Subject:
    """The emulator's S3, looked at through boto3."""

    target: dict[str, Any] = {"store": "s3"}  # noqa: RUF012 -- the TriggerSubject protocol's attribute

    def __init__(self, services: Services, settings: Settings, receiving: Receiving) -> None:
        self._s3 = services.aws("s3")
        self.settings = settings
        self._receiving = receiving

    def driver(self, spec: TrialSpec) -> Driver:
        """Return a driver of the emulator."""
        return S3Driver(spec, self.settings, AnchoredClock())

    def unreachable(self, spec: TrialSpec) -> Driver:
        """Return a driver of a port that refuses."""
        return S3Driver(spec, self.settings.model_copy(update={"aws_endpoint_url": NO_SERVER}), AnchoredClock())

    async def read_back(self, spec: TrialSpec, key: str) -> bytes | None:
        """Return the newest version."""
        del spec
        return await asyncio.to_thread(self._get, key)

    def receiving(self, spec: TrialSpec) -> AbstractAsyncContextManager[Arrived]:
        """Let the function run."""
        return self._receiving(spec.tag)

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return versions, delete markers and notification entries."""
        return await asyncio.to_thread(self._list, spec)

    def _get(self, key: str) -> bytes | None:
        try:
            body: bytes = self._s3.get_object(Bucket=self.settings.target_bucket, Key=key)["Body"].read()
        except ClientError as error:
            assert error.response["Error"]["Code"] == "NoSuchKey"  # noqa: PT017 -- anything else is a broken test
            return None
        return body

    def _list(self, spec: TrialSpec) -> list[str]:
        bucket = self.settings.target_bucket
        found = self._s3.list_object_versions(Bucket=bucket, Prefix=spec.tag)
        kept = [each["VersionId"] for each in (*found.get("Versions", ()), *found.get("DeleteMarkers", ()))]
        config = self._s3.get_bucket_notification_configuration(Bucket=bucket)
        entries = [str(entry) for entry in config.get("LambdaFunctionConfigurations", ()) if spec.tag in str(entry)]
        return sorted(kept) + entries


@pytest.fixture
def subject(services: Services, receiver_arn: str, receiving: Receiving) -> S3Subject:
    """Return S3 with a receiver that can be configured and runs within `receiving` only."""
    settings = services.settings.model_copy(update={"receive_events_function_arn": receiver_arn})
    return S3Subject(services, settings, receiving)


class TestS3Driver(SubjectFixture, TriggerContract):
    """The contract."""


class TestS3Filter(SubjectFixture, FilterContract):
    """Its filter is the notification's prefix, so an update's key would have to tell."""

    operations = ("put", "delete")


async def test_a_suffix_is_on_every_key_and_holds_back_what_lacks_it(subject: S3Subject, services: Services) -> None:
    """A filter that S3 is not given would deliver all, and time nothing else than without one."""
    spec = contract_spec(subject.target | {"suffix": ".json"})
    first, second = (contract_write(spec, sequence) for sequence in (0, 1))
    async with running(subject.driver(spec)) as driver, subject.receiving(spec) as arrived:
        put = partial(services.aws("s3").put_object, Bucket=subject.settings.target_bucket)
        await asyncio.to_thread(put, Key=first.key, Body=first.value)
        assert (await perform(driver, second)).outcome is Outcome.OK
        assert await subject.read_back(spec, f"{second.key}.json") == second.value
        async with asyncio.timeout(DELIVERY_LIMIT_S):
            while not await arrived():  # noqa: ASYNC110 -- a bucket
                await asyncio.sleep(0.05)
        assert [sequence for _, sequence in await arrived()] == [1]
    assert await subject.leftovers(spec) == []


async def test_the_token_is_the_version_that_s3_reports(subject: S3Subject, services: Services) -> None:
    """The receiver knows an update by its version id only; another token and every update is lost."""
    spec = contract_spec(subject.target)
    write = contract_write(spec, 0)
    async with running(subject.driver(spec)) as driver:
        written = await perform(driver, write)
        head = services.aws("s3").head_object(Bucket=subject.settings.target_bucket, Key=write.key)
    assert written.token == head["VersionId"]


async def test_unusual_keys_arrive_unchanged(subject: S3Subject) -> None:
    """A key that is encoded twice, or normalised, is another key; and its signature does not hold."""
    spec = contract_spec(subject.target)
    keys = [f"{spec.tag}/{odd}" for odd in ("a b", "a+b", "a%20b", "ü/€", "a//b", "~!*'()", "a?b=c&d", "#:@$,;")]
    async with running(subject.driver(spec)) as driver:
        written = await asyncio.gather(*(perform(driver, Request(Kind.INSERT, key, key.encode())) for key in keys))
        stored = [await subject.read_back(spec, key) for key in keys]
    assert [each.error for each in written] == [""] * len(keys)
    assert stored == [key.encode() for key in keys]


async def test_a_refusal_is_failed_with_s3s_own_code(subject: S3Subject) -> None:
    """The report counts failures by code; 'HTTP 404' would leave the user to guess."""
    spec = contract_spec(subject.target)
    driver = S3Driver(spec, subject.settings.model_copy(update={"target_bucket": "no-such-bucket"}), AnchoredClock())
    await driver.open()
    try:
        written = await perform(driver, contract_write(spec, 0))
    finally:
        await driver.close()
    assert (written.outcome, written.error) == (Outcome.FAILED, "NoSuchBucket")


async def test_a_foreign_notification_survives(subject: S3Subject, services: Services, receiver_arn: str) -> None:
    """S3 takes the configuration as a whole: whoever writes only its own entry removes everybody else's."""
    s3, bucket = services.aws("s3"), subject.settings.target_bucket
    foreign = {"Id": "foreign", "LambdaFunctionArn": receiver_arn, "Events": ["s3:ObjectRemoved:*"]}
    s3.put_bucket_notification_configuration(
        Bucket=bucket, NotificationConfiguration={"LambdaFunctionConfigurations": [foreign]}
    )
    async with running(subject.driver(contract_spec(subject.target))):
        during = s3.get_bucket_notification_configuration(Bucket=bucket)["LambdaFunctionConfigurations"]
    after = s3.get_bucket_notification_configuration(Bucket=bucket)["LambdaFunctionConfigurations"]
    assert [len(during), after] == [2, [foreign]]


async def test_updates_are_preloaded_before_the_trigger_is_on(subject: S3Subject) -> None:
    """A preloaded version that reaches the receiver is an arrival that no writer has recorded."""
    spec = contract_spec(subject.target, "update", distinct_keys=1)
    seen: list[bool] = []

    class Watched(S3Driver):
        def prepare_request(self, request: Request) -> PendingRequest:
            return CoroutineRequest(partial(self._look_and_send, super().prepare_request(request)), AnchoredClock())

        async def _look_and_send(self, pending: PendingRequest) -> Result:
            seen.append(await self.ready())
            return await result_of(pending)

    async with running(Watched(spec, subject.settings, AnchoredClock())):
        pass
    assert seen == [False]


async def test_a_bucket_without_versions_is_refused(subject: S3Subject, services: Services) -> None:
    """Without version ids every update would be lost in the join; better said before the load."""
    services.aws("s3").put_bucket_versioning(
        Bucket=subject.settings.target_bucket, VersioningConfiguration={"Status": "Suspended"}
    )
    driver = subject.driver(contract_spec(subject.target))
    with pytest.raises(TargetUnavailableError, match="enable versioning"):
        await driver.prepare()


async def test_tear_down_of_a_bucket_that_is_gone_is_done(subject: S3Subject) -> None:
    """The stack may be deleted while the sweeper still holds the trial's lease."""
    settings = subject.settings.model_copy(update={"target_bucket": "no-such-bucket"})
    assert await S3Driver(contract_spec(subject.target), settings, AnchoredClock()).tear_down() is True


async def test_tear_down_goes_on_where_it_stopped(subject: S3Subject) -> None:
    """A Lambda call is bounded and a trial may have left millions of versions."""
    spec = contract_spec(subject.target)
    clock = _Racing()
    async with running(S3Driver(spec, subject.settings, clock)) as driver:
        await perform(driver, contract_write(spec, 0))
        assert await driver.tear_down() is False
        assert await driver.tear_down() is True
    assert await subject.leftovers(spec) == []


class _Racing(AnchoredClock):
    """A clock that each look at it finds half a minute later."""

    _looks = 0

    def now_ns(self) -> int:
        self._looks += 1
        return super().now_ns() + self._looks * 30_000_000_000


async def test_a_preload_that_fails_leaves_the_driver_closed(
    subject: S3Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PrepareTarget is retried in the same sandbox; half-open drivers would pile up connections."""
    spec = contract_spec(subject.target, "update", distinct_keys=1)

    async def refuse(*_: object, **__: object) -> None:
        raise TargetUnavailableError("throttled")  # noqa: EM101

    monkeypatch.setattr("stepbench.drivers.s3.trigger.preload_keys", refuse)
    driver = S3Driver(spec, subject.settings, AnchoredClock())
    with pytest.raises(TargetUnavailableError, match="throttled"):
        await driver.prepare()
    with pytest.raises(RuntimeError, match="open the driver"):
        await perform(driver, contract_write(spec, 0))


async def test_the_plans_own_endpoint_is_the_one_that_is_used(subject: S3Subject, emulator: str) -> None:
    """It serves control and writes: the stack's own S3 is unreachable here, so any slip fails."""
    spec = contract_spec(subject.target | {"endpoint": emulator})
    settings = subject.settings.model_copy(update={"aws_endpoint_url": NO_SERVER})
    async with running(S3Driver(spec, settings, AnchoredClock())) as driver:
        written = await perform(driver, contract_write(spec, 0))
    assert written.error == ""


@pytest.mark.parametrize("endpoint", ["https://127.0.0.1:1", "http://no-such-host.invalid:9000"])
async def test_an_endpoint_that_nobody_serves_is_unavailable(subject: S3Subject, endpoint: str) -> None:
    """It is so over TLS too, and where the name has no address."""
    driver = S3Driver(contract_spec(subject.target | {"endpoint": endpoint}), subject.settings, AnchoredClock())
    with pytest.raises(TargetUnavailableError):
        await driver.open()
    await driver.close()
