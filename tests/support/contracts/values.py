"""
What every store's reads do with a value that is not the record's: a part of `OperationsContract`.

The wrong values are really there, written by the driver itself, so that it does not matter whether a proxy could read
the store's protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from tests.support.contracts.operations_subject import (
    OperationsSubject,
    Shape,
    contents_of,
    kinds_of,
    operating,
    operations_spec,
    stored_of,
)
from tests.support.contracts.trigger_subject import declared

from stepbench.contracts.workload import Kind
from stepbench.model.pending import perform
from stepbench.model.request import Outcome
from stepbench.workload.checks import WHOLE_EVERY
from stepbench.workload.products import json_blob

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.drivers.protocol import Driver
    from stepbench.model.request import Request
    from stepbench.workload.operations import Contents

Fault = Literal["length", "content", "another record's", "old"]
FAULTS: tuple[Fault, ...] = ("length", "content", "another record's", "old")
STILL = {"read": 1, "insert": 1}
"""A mix that changes no record."""
PLANTED, READS = 3, 2 * WHOLE_EVERY
WRONG, RIGHT = (Outcome.FAILED, "wrong_value"), (Outcome.OK, "")


class ValuesContract:
    """The tests of values that are not the record's."""

    @pytest.mark.parametrize("fault", FAULTS)
    @pytest.mark.parametrize("shape", ["blob", "product"])
    async def test_wrong_values_are_failed_and_counted(
        self, subject: OperationsSubject, shape: Shape, fault: Fault
    ) -> None:
        """A cache that serves somebody else's data is fast, and no benchmark should praise it."""
        spec = operations_spec(subject.target, shape, workload={"mix": STILL})
        contents = contents_of(spec)
        async with operating(subject.operable(spec)) as driver:
            await _plant(driver, wrong_value(contents, fault))
            read, other = (contents.operation(Kind.READ, record, 0) for record in (PLANTED, PLANTED + 2))
            results = [await perform(driver, read) for _ in range(READS)]
            after = [await perform(driver, other) for _ in range(READS)]
        is_share = shape == "product" and fault != "length"
        found = [(each.outcome, each.error) for each in results]
        assert found.count(WRONG) == (READS // WHOLE_EVERY if is_share else READS)
        assert found.count(RIGHT) == READS - found.count(WRONG)
        assert {(each.outcome, each.error) for each in after} == {RIGHT}

    @pytest.mark.parametrize("reuse", [True, False])
    @pytest.mark.parametrize("shape", ["blob", "product"])
    async def test_a_wrong_value_is_not_modified(
        self, subject: OperationsSubject, shape: Shape, *, reuse: bool
    ) -> None:
        """What is FAILED has not happened; each way to read has the check."""
        spec = operations_spec(subject.target, shape, reuse=reuse)
        contents = contents_of(spec)
        planted = wrong_value(contents, "length")
        async with operating(subject.operable(spec)) as driver:
            await _plant(driver, planted)
            for kind in {Kind.READ, Kind.READ_MODIFY_WRITE} & kinds_of(subject.target, shape):
                operated = await perform(driver, contents.operation(kind, PLANTED, 7))
                assert (operated.outcome, operated.error) == WRONG
                assert operated.t1_ns < operated.t2_ns
            assert await subject.read_back(spec, planted.key) == stored_of(planted)

    async def test_a_wrong_value_among_the_rows_of_a_scan_is_found(self, subject: OperationsSubject) -> None:
        """Where the store can scan, and for whichever reason a row is wrong: in the first scan all are compared."""
        if Kind.SCAN not in declared(subject.target).operations:
            pytest.skip(f"{subject.target} declares no scans")
        spec = operations_spec(subject.target, workload={"mix": {"scan": 1}, "key_order": "ordered"})
        contents = contents_of(spec)
        for fault in FAULTS:
            async with operating(subject.operable(spec)) as driver:
                await _plant(driver, wrong_value(contents, fault))
                operated = await perform(driver, contents.operation(Kind.SCAN, PLANTED, 0, rows=5))
                assert (fault, operated.outcome, operated.error) == (fault, *WRONG)


def wrong_value(contents: Contents, fault: Fault) -> Request:
    """Return an insertion of what is wrong for the record `PLANTED`."""
    right, another = contents.preloaded(PLANTED), contents.preloaded(PLANTED + 1)
    fields = dict(right.fields or {})
    match fault:
        case "length":
            return _with(right, right.value[:-3], {**fields, "city": fields.get("city", "")[:3]})
        case "content":
            return _with(right, right.value[:-1] + b"!", {**fields, "name": "x" * 20})
        case "another record's":
            return _with(right, another.value, another.fields or {})
        case "old":
            old = contents.operation(Kind.OVERWRITE, PLANTED, 5)
            return _with(right, old.value, old.fields or {})


def _with(request: Request, value: bytes, fields: Mapping[str, str]) -> Request:
    if request.fields is None:
        return request._replace(value=value)
    return request._replace(value=json_blob(fields), fields=fields)


async def _plant(driver: Driver, request: Request) -> None:
    assert (await perform(driver, request)).outcome is Outcome.OK
