"""S3Blobs against the emulator: the contract, and what S3 alone has."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.drivers.subjects import NO_SERVER, SubjectFixture
from tests.support.contracts.blobs import MIB, BlobsContract
from tests.support.contracts.blobs_subject import SILENT_LIMIT_S, blobs_spec, holding
from tests.support.fault_proxy import S3_SLOW_DOWN, FaultProxy, Rule, Throttle, fault_proxy, http1

from stepbench.clock import AnchoredClock
from stepbench.drivers.s3.blobs import S3Blobs
from stepbench.model.request import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.fault_proxy import Framing

    from stepbench.contracts.plan import TrialSpec
    from stepbench.services import Services

pytestmark = pytest.mark.emulator


class S3BlobsSubject:
    """The emulator's S3, looked at through boto3."""

    target: dict[str, Any] = {"store": "s3"}  # noqa: RUF012 -- the protocol's attribute
    framing: Callable[[], Framing] = staticmethod(http1)

    def __init__(self, services: Services) -> None:
        self._services = services
        self.upstream = services.settings.aws_endpoint_url

    def store(self, spec: TrialSpec) -> S3Blobs:
        """See `BlobsSubject`."""
        return self._at(spec, self.upstream, 20)

    def unreachable(self, spec: TrialSpec) -> S3Blobs:
        """See `BlobsSubject`."""
        return self._at(spec, NO_SERVER, 20)

    def through(self, spec: TrialSpec, proxy: FaultProxy) -> S3Blobs:
        """See `BlobsSubject`."""
        return self._at(spec, proxy.url, SILENT_LIMIT_S)

    def _at(self, spec: TrialSpec, url: str, stall_s: float) -> S3Blobs:
        settings = self._services.settings.model_copy(update={"aws_endpoint_url": url})
        return S3Blobs(spec, settings, AnchoredClock(), stall_s=stall_s)

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return versions and delete markers."""
        bucket, s3 = self._services.settings.target_bucket, self._services.aws("s3")
        found = await asyncio.to_thread(s3.list_object_versions, Bucket=bucket, Prefix=spec.tag)
        return [one["Key"] for kind in ("Versions", "DeleteMarkers") for one in found.get(kind, ())]


@pytest.fixture
def subject(services: Services) -> S3BlobsSubject:
    """Return the emulator."""
    return S3BlobsSubject(services)


class TestS3Blobs(SubjectFixture, BlobsContract):
    """The contract."""


async def test_a_refusal_in_the_middle_of_a_body_has_the_stores_word(subject: S3BlobsSubject) -> None:
    """S3 throttles by an answer that comes before it has read the request; the rest of it must go nowhere."""
    spec = blobs_spec(subject.target)
    async with holding(subject.store(spec)):
        with fault_proxy(subject.upstream, http1) as proxy:
            store = subject.through(spec, proxy)
            proxy.follow(Rule(Throttle(S3_SLOW_DOWN), match=b"PUT", times=1))
            refused = await store.put(f"{spec.tag}/large", bytes(4 * MIB))
            taken = await store.put(f"{spec.tag}/large", bytes(4 * MIB))
            await store.close()
    assert (refused.outcome, refused.error) == (Outcome.FAILED, "SlowDown")
    assert taken.outcome is Outcome.OK


async def test_a_bucket_that_is_gone_is_an_outcome(subject: S3BlobsSubject, services: Services) -> None:
    """It is no `not_found`: nothing of the trial's can be there."""
    settings = services.settings.model_copy(update={"target_bucket": "no-such-bucket"})
    spec = blobs_spec(subject.target)
    store = S3Blobs(spec, settings, AnchoredClock())
    put, (_, get) = await store.put(f"{spec.tag}/key", b"1"), await store.get(f"{spec.tag}/key")
    await store.close()
    assert {(each.outcome, each.error) for each in (put, get)} == {(Outcome.FAILED, "NoSuchBucket")}
