"""Which of an account's quotas a deployment has met, from what CloudFormation says of the resource that failed."""

from __future__ import annotations

_HOSTS = "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"
_REMEDIES = {
    "VcpuLimitExceeded": f'EC2\'s "{_HOSTS}" counts vCPUs, 5 in a new account: LoadHost=on takes 8, EtcdNodes=on 6, '
    "CassandraNode=on 2 with the default types",
    "ReservedConcurrentExecutions": 'Lambda\'s "Concurrent executions" leaves less than 100 unreserved: deploy with '
    "ClockCheck=off",
    "4KB limit": "Lambda's environments hold 4 KB in all: shorten Teams, or the addresses of servers that are given",
    "'MemorySize' value failed": "a new account's functions have 3,008 MB at the most: lower TransferMemorySize, "
    "TaskMemorySize and MeasuredMemorySize",
    "VpcLimitExceeded": 'EC2\'s "VPCs per Region", 5 by default: delete one, or give VpcSubnetIds of one that is there',
}
"""Remedies by what is in the message."""


def quota_remedy(text: str) -> str:
    """Return a line about each quota that a message is about, with what to do; empty if it is about none."""
    joined = " ".join(text.split())  # SAM CLI breaks the lines of its table
    found = [remedy for sign, remedy in _REMEDIES.items() if sign in joined]
    return "".join(f"\n{remedy}, or have the quota raised (Service Quotas)" for remedy in found)
