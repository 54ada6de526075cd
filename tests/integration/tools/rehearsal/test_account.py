"""What a stack's name has, listed and removed, on the emulator."""

from __future__ import annotations

import pytest

from stepbench_tools.local.sam import emulator_account
from stepbench_tools.rehearsal.account import Account, find_account, leftovers, take, take_inventory

STACK = "inventoried"


@pytest.fixture
def account(emulator: str, monkeypatch: pytest.MonkeyPatch) -> Account:
    """Return the emulator's account."""
    for name, value in emulator_account(emulator).items():
        monkeypatch.setenv(name, value)
    return find_account("MiniStack")


def _make(account: Account) -> None:
    """Make a versioned bucket with an object, two versions of it and a delete marker, a table and log groups."""
    s3 = account.client("s3")
    s3.create_bucket(Bucket=f"{STACK}-target")
    s3.put_bucket_versioning(Bucket=f"{STACK}-target", VersioningConfiguration={"Status": "Enabled"})
    for body in (b"1", b"2"):
        s3.put_object(Bucket=f"{STACK}-target", Key="a", Body=body)
    s3.delete_object(Bucket=f"{STACK}-target", Key="a")
    key = {"AttributeName": "pk"}
    account.client("dynamodb").create_table(
        TableName=f"{STACK}-target-1",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{**key, "KeyType": "HASH"}],
        AttributeDefinitions=[{**key, "AttributeType": "S"}],
    )
    for group in (f"/aws/lambda/{STACK}-RunWriter", f"/aws/vendedlogs/states/{STACK}"):
        account.client("logs").create_log_group(logGroupName=group)


def test_what_outlives_a_stack_is_found_and_removed_and_nothing_else(account: Account) -> None:
    """A name that merely begins alike belongs to others."""
    _make(account)
    s3 = account.client("s3")
    s3.create_bucket(Bucket=f"{STACK}x-other")
    assert take_inventory(account, STACK).found == {
        "buckets": (f"{STACK}-target",),
        "tables": (f"{STACK}-target-1",),
        "log groups": (f"/aws/lambda/{STACK}-RunWriter", f"/aws/vendedlogs/states/{STACK}"),
    }
    assert take(leftovers(account, STACK), print) == []
    assert take_inventory(account, STACK) == ({}, {})
    s3.delete_bucket(Bucket=f"{STACK}x-other")  # which is still there


def test_what_cannot_be_removed_is_named_and_the_rest_goes(account: Account) -> None:
    """One refusal must not keep what costs by the hour."""
    _make(account)
    protected = {"TableName": f"{STACK}-target-1", "DeletionProtectionEnabled": True}
    account.client("dynamodb").update_table(**protected)
    (failure,) = take(leftovers(account, STACK), print)
    assert failure.startswith(f"table {STACK}-target-1: ")
    assert take_inventory(account, STACK).found == {"tables": (f"{STACK}-target-1",)}
    account.client("dynamodb").update_table(**{**protected, "DeletionProtectionEnabled": False})
    assert take(leftovers(account, STACK), print) == []
