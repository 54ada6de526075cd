"""Where AWS's price list has each price: one filter for each, which selects exactly one product of a region."""

from __future__ import annotations

from typing import NamedTuple


class PriceFilter(NamedTuple):
    """
    What tells a product from all others of its service and region.

    service: the service code of the Price List API.
    usage: the usage type, without the region's code before it; `*` at the end stands for anything.
    attributes: further ones, by their names in the API, where usage types are shared.
    other_usages: what some regions call it.
    """

    service: str
    usage: str
    attributes: tuple[tuple[str, str], ...] = ()
    other_usages: tuple[str, ...] = ()


FILTERS: dict[str, PriceFilter] = {
    "s3_put": PriceFilter("AmazonS3", "Requests-Tier1", (("group", "S3-API-Tier1"),)),
    "s3_get": PriceFilter("AmazonS3", "Requests-Tier2", (("group", "S3-API-Tier2"),)),
    "s3_storage": PriceFilter("AmazonS3", "TimedStorage-ByteHrs", (("volumeType", "Standard"),)),
    "dynamodb_write": PriceFilter("AmazonDynamoDB", "WriteRequestUnits"),
    "dynamodb_read": PriceFilter("AmazonDynamoDB", "ReadRequestUnits"),
    "dynamodb_write_hour": PriceFilter("AmazonDynamoDB", "WriteCapacityUnit-Hrs"),
    "dynamodb_read_hour": PriceFilter("AmazonDynamoDB", "ReadCapacityUnit-Hrs"),
    "dynamodb_storage": PriceFilter("AmazonDynamoDB", "TimedStorage-ByteHrs"),
    "aurora_io": PriceFilter("AmazonRDS", "Aurora:StorageIOUsage", (("databaseEngine", "Any"),)),
    "aurora_acu_hour": PriceFilter("AmazonRDS", "Aurora:ServerlessV2Usage", (("databaseEngine", "Aurora PostgreSQL"),)),
    "dsql_dpu": PriceFilter("AuroraDSQL", "DSQL-DistributedProcessingUnits"),
    "elasticache_ecpu": PriceFilter("AmazonElastiCache", "ElastiCacheProcessingUnits:Valkey"),
    "elasticache_gb_hour": PriceFilter("AmazonElastiCache", "CachedData:Valkey"),
    "lambda_request": PriceFilter(
        "AWSLambda", "Request", (("group", "AWS-Lambda-Requests"),), ("Lambda-Requests-Tier1",)
    ),
    "lambda_gb_s": PriceFilter("AWSLambda", "Lambda-GB-Second", (("group", "AWS-Lambda-Duration"),)),
    "lambda_arm_gb_s": PriceFilter("AWSLambda", "Lambda-GB-Second-ARM", (("group", "AWS-Lambda-Duration-ARM"),)),
    "efs_read": PriceFilter("AmazonEFS", "ETDataAccess-Bytes", (("accessType", "Read"),)),
    "efs_write": PriceFilter("AmazonEFS", "ETDataAccess-Bytes", (("accessType", "Write"),)),
    "efs_storage": PriceFilter("AmazonEFS", "TimedStorage-ByteHrs", (("storageClass", "General Purpose"),)),
    "fargate_vcpu_hour": PriceFilter("AmazonECS", "Fargate-vCPU-Hours:perCPU"),
    "fargate_gb_hour": PriceFilter("AmazonECS", "Fargate-GB-Hours"),
    "sqs_fifo": PriceFilter(
        "AWSQueueService",
        "Requests-FIFO-RBP",
        (("queueType", "FIFO (first-in, first-out)"),),
        ("Requests-FIFO-Tier1", "Requests-Tier1"),
    ),
    "state_transition": PriceFilter("AmazonStates", "StateTransition"),
    "logs_ingestion": PriceFilter("AmazonCloudWatch", "DataProcessing-Bytes"),
    "logs_storage": PriceFilter("AmazonCloudWatch", "TimedStorage-ByteHrs"),
    "ebs_gp3": PriceFilter("AmazonEC2", "EBS:VolumeUsage.gp3"),
    "public_ipv4": PriceFilter("AmazonVPC", "PublicIPv4:InUseAddress"),
    "vpc_endpoint": PriceFilter("AmazonVPC", "VpcEndpoint-Hours"),
    "secret": PriceFilter("AWSSecretsManager", "AWSSecretsManager-Secrets"),
}
_INSTANCES = {
    "ec2": ("AmazonEC2", "BoxUsage:*", (("operatingSystem", "Linux"), ("tenancy", "Shared"), ("preInstalledSw", "NA"))),
    "aurora": ("AmazonRDS", "InstanceUsage:*", (("databaseEngine", "Aurora PostgreSQL"),)),
    "elasticache": ("AmazonElastiCache", "NodeUsage:*", (("cacheEngine", "Valkey"),)),
}


def find_filter(key: str) -> PriceFilter | None:
    """Return the filter of a key; of an instance (`ec2:m6g.xlarge`) one with its type; None for no key of ours."""
    service, _, type_ = key.partition(":")
    if service in _INSTANCES and type_:
        code, usage, attributes = _INSTANCES[service]
        return PriceFilter(code, usage, (("instanceType", type_), *attributes))
    return FILTERS.get(key)
