"""A deployment that meets a quota says which one, and what to do."""

from __future__ import annotations

import pytest

from stepbench_tools.local.sam import quota_remedy

VCPUS = """
CREATE_FAILED  AWS::EC2::Instance  Host  Resource handler returned message: "You have requested
                                         more vCPU capacity than your current vCPU limit of 5 allows
                                         for the instance bucket that the specified instance type
                                         belongs to. (Service: Ec2, Status Code: 400, Error code:
                                         VcpuLimitExceeded)"
"""
MEMORY = "'MemorySize'\n   value failed to satisfy constraint: Member must have value less than or equal to 3008"


@pytest.mark.parametrize(
    ("text", "quota", "remedy"),
    [
        (VCPUS, "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "LoadHost=on takes 8"),
        (MEMORY, "3,008 MB", "TransferMemorySize"),
        (
            "Specified ReservedConcurrentExecutions for function decreases account's unreserved below its minimum",
            '"Concurrent executions"',
            "ClockCheck=off",
        ),
    ],
)
def test_a_quota_is_named_with_what_to_do(text: str, quota: str, remedy: str) -> None:
    """CloudFormation names neither the quota nor the parameter that asks for it."""
    found = quota_remedy(text)
    assert quota in found
    assert remedy in found
    assert found.startswith("\n")


def test_another_failure_is_about_no_quota() -> None:
    """A remedy that does not belong there would send somebody to the wrong place."""
    assert quota_remedy("Parameter 'Teams' must be JSON") == ""
