"""Objects of somebody's own."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
from tests.integration.drivers.s3.test_trigger import S3Subject
from tests.support.contracts.life import running
from tests.support.contracts.rows import own_rows

from stepbench.contracts.identity import update_key
from stepbench.model.pending import perform

if TYPE_CHECKING:
    from tests.integration.drivers.conftest import Receiving

    from stepbench.services import Services

pytestmark = pytest.mark.emulator
IMAGE = bytes(range(256)) * 20_480
OTHER = {"body": "é", "suffix": ".t x"}


@pytest.fixture
def subject(services: Services, receiver_arn: str, receiving: Receiving) -> S3Subject:
    """Return the emulator's S3."""
    settings = services.settings.model_copy(update={"receive_events_function_arn": receiver_arn})
    return S3Subject(services, settings, receiving)


async def test_an_image_of_5_mb_is_stored_as_given_under_a_key_with_its_suffix(subject: S3Subject) -> None:
    """A handler that makes thumbnails reads it, and goes by the ending."""
    own = own_rows(subject.target, [{"base64": base64.b64encode(IMAGE).decode(), "suffix": ".jpg"}, OTHER])
    async with running(own.given_to(subject.driver(own.spec))) as driver:
        for number, body in enumerate((IMAGE, "é".encode())):
            write = own.payloads.write(number)
            written = await perform(driver, write)
            assert (written.error, bool(written.token)) == ("", True)
            assert await subject.read_back(own.spec, write.key) == body
        assert own.payloads.write(0).key.endswith(".jpg")


async def test_updates_find_bodies_preloaded_under_keys_with_the_suffix(subject: S3Subject) -> None:
    """What is updated is there."""
    rows = [{"body": "a", "suffix": ".txt"}, {"body": "b", "suffix": ".txt"}]
    own = own_rows(subject.target, rows, operation="update", distinct_keys=2)
    async with running(own.given_to(subject.driver(own.spec))):
        found = [await subject.read_back(own.spec, f"{update_key(own.spec.tag, n, 59)}.txt") for n in range(2)]
    assert found == [b"a", b"b"]
    assert own.payloads.write(0).key in {f"{update_key(own.spec.tag, n, 59)}.txt" for n in range(2)}
