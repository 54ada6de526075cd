"""Copies of measured functions without a trial, on the emulator."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest
from tests.samples.services import stored_trial
from tests.support.fake_clock import FakeClock
from tests.support.measuring_layer import zipped

from stepbench.stages.orphaned_copies import remove_orphaned_copies

if TYPE_CHECKING:
    from stepbench.records.storage.trial_table import Lease, TrialTable
    from stepbench.services import Services

pytestmark = pytest.mark.emulator

HOUR_NS = 3_600_000_000_000


def _make(services: Services, name: str, tag: str) -> None:
    code = zipped({"app.py": "def handler(event, context): pass"})
    services.aws("logs").create_log_group(logGroupName=f"/aws/lambda/{name}")
    services.aws("lambda").create_function(
        FunctionName=name,
        Runtime="python3.11",
        Role="arn:aws:iam::000000000000:role/any",
        Handler="app.handler",
        Code={"ZipFile": code},
        Tags={"stepbench:trial": tag},
    )


def test_what_a_trial_makes_while_leases_are_looked_at_stays(services: Services) -> None:
    """Its lease was taken after the first look, and its code is there before its function."""
    trial = stored_trial(services)
    key = f"functions/copies/{trial.tag}.zip"

    class Beginning:
        """The table, with a trial that begins behind the first look at its leases."""

        def leases(self) -> list[Lease]:
            found = services.table.leases()
            services.table.take_lease("s3#bucket", trial, "arn", time.time_ns())
            services.runs.put_bytes(key, b"code")
            return found

        def left(self) -> list[Lease]:
            return services.table.left()

    remove_orphaned_copies(replace(services, table=cast("TrialTable", Beginning())))
    assert services.runs.find_bytes(key) == b"code"


def test_only_copies_that_no_trial_holds_are_removed(services: Services) -> None:
    """A function of the user's that happens to have such a name lacks the tag. A log without its function is late."""
    prefix = services.settings.function_prefix
    held = stored_trial(services)
    services.table.take_lease("s3#bucket", held, "arn", time.time_ns())
    for tag, tagged in (("orphan-0001", "orphan-0001"), ("other-0001", "another"), (held.tag, held.tag)):
        _make(services, f"{prefix}-measured-{tag}", tagged)
    services.aws("logs").create_log_group(logGroupName=f"/aws/lambda/{prefix}-measured-late-0001")
    later = replace(services, clock=FakeClock(time.time_ns() + HOUR_NS))

    assert remove_orphaned_copies(services) == ()
    assert remove_orphaned_copies(later) == (f"{prefix}-measured-orphan-0001",)
    services.runs.put_bytes("functions/copies/orphan-0001.zip", b"code")
    assert remove_orphaned_copies(later) == ()
    assert services.runs.find_bytes("functions/copies/orphan-0001.zip") is None

    groups = services.aws("logs").describe_log_groups(logGroupNamePrefix=f"/aws/lambda/{prefix}-measured-")
    logged = {group["logGroupName"].rpartition("measured-")[2] for group in groups["logGroups"]}
    assert logged == {"other-0001", held.tag}
    kept = {f"{prefix}-measured-other-0001", f"{prefix}-measured-{held.tag}"}
    for page in services.aws("lambda").get_paginator("list_functions").paginate():
        assert f"{prefix}-measured-orphan-0001" not in {each["FunctionName"] for each in page["Functions"]}
    for name in kept:
        services.aws("lambda").delete_function(FunctionName=name)
        services.aws("logs").delete_log_group(logGroupName=f"/aws/lambda/{name}")
