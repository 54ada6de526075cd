"""
List prices of us-east-1, without free tiers, in US dollars.

Only what a trial itself causes is priced. What runs anyway (Aurora instances, EC2 nodes of etcd, NAT gateways,
storage for the hours of a run) is on the account's bill whether a trial runs or not.

Source:
    The public price pages of S3, DynamoDB, Lambda, Step Functions, Aurora, Aurora DSQL, ElastiCache and CloudWatch, as
    of PRICE_TABLE_DATE.
    DynamoDB's on-demand prices are those since the reduction of 1 November 2024.
"""

from __future__ import annotations

from typing import NamedTuple

PRICE_TABLE_DATE = "2025-07-01"
PRICE_TABLE_REGION = "us-east-1"


class Price(NamedTuple):
    """What one unit costs."""

    item: str
    unit: str
    usd: float


S3_PUT = Price("S3 PUT requests", "request", 0.005 / 1_000)
DYNAMODB_WRITE = Price("DynamoDB on-demand writes", "1 KB write unit", 0.625 / 1e6)
DYNAMODB_TARGET_READ = Price("DynamoDB on-demand reads", "4 KB read unit", 0.125 / 1e6)
DYNAMODB_PROVISIONED_WRITE = Price("DynamoDB provisioned write capacity", "unit hour", 0.00065)
DYNAMODB_PROVISIONED_READ = Price("DynamoDB provisioned read capacity", "unit hour", 0.00013)
DYNAMODB_READ = Price("Results table reads", "4 KB read unit", 0.125 / 1e6)
RESULTS_WRITE = Price("Results table writes", "1 KB write unit", 0.625 / 1e6)
RESULTS_PUT = Price("Results bucket PUT requests", "request", 0.005 / 1_000)
AURORA_IO = Price("Aurora I/O requests", "request", 0.20 / 1e6)
DSQL_DPU = Price("Aurora DSQL activity", "DPU", 8.00 / 1e6)
ELASTICACHE_ECPU = Price("ElastiCache Serverless (Valkey) processing", "ECPU", 0.0023 / 1e6)
LAMBDA_REQUEST = Price("Lambda requests", "request", 0.20 / 1e6)
LAMBDA_GB_S = Price("Lambda duration (x86)", "GB-second", 0.0000166667)
STATE_TRANSITION = Price("Step Functions state transitions", "transition", 0.025 / 1_000)
LOGS_GB = Price("CloudWatch Logs ingestion", "GB", 0.50)
