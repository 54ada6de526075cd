"""Values of somebody's own; the watch names events by their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.drivers.subjects import established_watch, take_changes
from tests.support.contracts.life import running
from tests.support.contracts.rows import own_rows

from stepbench.model.pending import perform

if TYPE_CHECKING:
    from tests.integration.drivers.etcd.conftest import EtcdSubject

pytestmark = [pytest.mark.stores, pytest.mark.usefixtures("one_member")]


async def test_values_are_the_rows_alone_and_events_are_named_by_their_keys(subject: EtcdSubject) -> None:
    """The largest that etcd takes among them."""
    rows = [{"body": "é"}, {"base64": "AAEC/w=="}, {"body": "x" * 1_571_700}]
    own = own_rows(subject.target, rows)
    async with running(own.given_to(subject.driver(own.spec))) as driver:
        async with established_watch(driver) as watching:
            writes = [own.payloads.write(number) for number in range(3)]
            results = [await perform(driver, write) for write in writes]
            changes = await take_changes(watching, 3)
        stored = [await subject.read_back(own.spec, write.key) for write in writes]
    assert [each.error for each in results] == ["", "", ""]
    assert stored == ["é".encode(), b"\x00\x01\x02\xff", b"x" * 1_571_700]
    assert [change.value.decode() for change in changes] == [write.key for write in writes]
