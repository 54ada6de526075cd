"""Documents are small ones of the format of GetProducts; usage types and attributes are those that AWS lists."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepbench.costs import prices
from stepbench.costs.prices import (
    DEFAULT_REGION,
    Price,
    PriceFilter,
    PriceRow,
    PriceTable,
    describe_prices,
    find_price,
    instance,
    price_table,
)
from stepbench_tools.prices import ListedPrice, PriceListError, asked_for, find_filter, refresh, select

TABLE = price_table()
ALL = {value.key for value in vars(prices).values() if isinstance(value, Price)}


def product(sku: str, region: str, tiers: dict[str, float], **attributes: str) -> str:
    """Return a product with its price on demand, by the amount from which on it holds, and one that is reserved."""
    dimensions = {
        f"{sku}.JRTCKXETXF.{n}": {
            "rateCode": f"{sku}.JRTCKXETXF.{n}",
            "beginRange": begin,
            "endRange": "Inf",
            "unit": "Units",
            "pricePerUnit": {"USD": f"{usd:.12f}"},
        }
        for n, (begin, usd) in enumerate(tiers.items())
    }
    term = {"effectiveDate": "2026-06-01T00:00:00Z", "offerTermCode": "JRTCKXETXF", "priceDimensions": dimensions}
    document: dict[str, Any] = {
        "product": {"sku": sku, "attributes": {"regionCode": region, **attributes}},
        "serviceCode": "Any",
        "terms": {"OnDemand": {f"{sku}.JRTCKXETXF": term}, "Reserved": {}},
    }
    return json.dumps(document)


DECOYS: dict[str, list[dict[str, str]]] = {
    "s3_put": [{"usagetype": "Requests-Tier2", "group": "S3-API-Tier2"}, {"usagetype": "Requests-SIA-Tier1"}],
    "s3_storage": [{"usagetype": "TimedStorage-ByteHrs", "volumeType": "INTAAS3ObjectOverhead"}],
    "dynamodb_write": [{"usagetype": "IA-WriteRequestUnits"}, {"usagetype": "ReplicatedWriteRequestUnits"}],
    "dynamodb_read": [{"usagetype": "IA-ReadRequestUnits"}],
    "dynamodb_write_hour": [
        {"usagetype": "IA-WriteCapacityUnit-Hrs"},
        {"usagetype": "ReplicatedWriteCapacityUnit-Hrs"},
    ],
    "dynamodb_read_hour": [{"usagetype": "IA-ReadCapacityUnit-Hrs"}],
    "dynamodb_storage": [{"usagetype": "IA-TimedStorage-ByteHrs"}, {"usagetype": "USE1-TimedPITRStorage-ByteHrs"}],
    "aurora_acu_hour": [{"usagetype": "Aurora:ServerlessV2IOOptimizedUsage", "databaseEngine": "Aurora PostgreSQL"}],
    "dsql_dpu": [{"usagetype": "Global-DSQL-DistributedProcessingUnits"}, {"usagetype": "USE1-DSQL-Storage-ByteHrs"}],
    "elasticache_ecpu": [{"usagetype": "ElastiCacheProcessingUnits:Redis"}],
    "elasticache_gb_hour": [{"usagetype": "CachedData:Redis"}],
    "lambda_request": [{"usagetype": "Global-Request", "group": "AWS-Lambda-Requests"}],
    "lambda_gb_s": [
        {"usagetype": "Lambda-GB-Second-ARM", "group": "AWS-Lambda-Duration-ARM"},
        {"usagetype": "Global-Lambda-GB-Second", "group": "AWS-Lambda-Duration"},
    ],
    "sqs_fifo": [
        {"usagetype": "Requests-RBP", "queueType": "Standard"},
        {"usagetype": "Requests-Fair-RBP", "queueType": "Fair"},
    ],
    "state_transition": [{"usagetype": "USE1-StepFunctions-Request"}],
    "logs_ingestion": [{"usagetype": "USE1-VendedLog-Bytes"}, {"usagetype": "USE1-DataProcessingIA-Bytes"}],
    "ebs_gp3": [{"usagetype": "EBS:VolumeUsage.gp2"}, {"usagetype": "EBS:VolumeP-IOPS.gp3"}],
    "public_ipv4": [{"usagetype": "USE1-PublicIPv4:IdleAddress"}],
    "vpc_endpoint": [{"usagetype": "USE1-VpcEndpoint-Bytes"}, {"usagetype": "VpcEndpoint-Service-Hours"}],
    "aurora:db.r6g.large": [
        {"usagetype": "InstanceUsageIOOptimized:db.r6g.large", "databaseEngine": "Aurora PostgreSQL"},
        {"usagetype": "InstanceUsage:db.r6g.large", "databaseEngine": "PostgreSQL"},
    ],
    "elasticache:cache.r7g.large": [
        {"usagetype": "SyncDurability-NodeUsage:cache.r7g.large", "cacheEngine": "Valkey"},
        {"usagetype": "USE1-ExtendedSupportYr1_Yr2-NodeUsage:cache.r7g.large", "cacheEngine": "Valkey"},
        {"usagetype": "NodeUsage:cache.r7g.large", "cacheEngine": "Redis"},
    ],
    "ec2:m6i.large": [
        {"usagetype": "UnusedBox:m6i.large", "operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA"},
        {"usagetype": "BoxUsage:m6i.large", "operatingSystem": "Windows", "tenancy": "Shared", "preInstalledSw": "NA"},
    ],
}


def _filter(key: str) -> PriceFilter:
    found = find_filter(key)
    assert found is not None
    return found


def usage_type(key: str, region: str) -> str:
    """Return what a region calls the key's usage, in us-east-1 as its oldest services do."""
    found = _filter(key)
    bare = found.usages[0].replace("*", key.partition(":")[2])
    return bare if region == DEFAULT_REGION else f"EU-{bare}"


def catalogue(key: str, region: str = DEFAULT_REGION, usd: float = 2.0) -> list[str]:
    """Return the key's product, the first units of which are free, beside others that are easily taken for it."""
    found = _filter(key)
    type_ = {"instanceType": key.partition(":")[2]} if ":" in key else {}
    own = {**type_, **found.attributes, "usagetype": usage_type(key, region)}
    others = [{**type_, **each} for each in DECOYS.get(key, [])]
    elsewhere = product("ELSEWHERE", "us-west-2", {"0": 9.0}, **own)
    decoys = [product(f"DECOY{n}", region, {"0": 7.0}, **each) for n, each in enumerate(others)]
    return [elsewhere, *decoys, product("RIGHT", region, {"0": 0.0, "100": usd, "5000": usd / 2}, **own)]


@pytest.mark.parametrize("region", [DEFAULT_REGION, "eu-west-1"])
@pytest.mark.parametrize("key", sorted(TABLE.regions[DEFAULT_REGION]))
def test_every_price_of_the_table_has_a_filter_that_selects_one_product(key: str, region: str) -> None:
    """Beside it stand the product of another region, and those of nearly the same name; its first units are free."""
    found = _filter(key)
    listed = select(key, found, region, catalogue(key, region))
    assert (listed.sku, listed.usd) == ("RIGHT", 2.0)
    assert asked_for(found, region)[0] == {"Type": "TERM_MATCH", "Field": "regionCode", "Value": region}


def test_all_that_is_ever_billed_is_in_the_table() -> None:
    """A price that is missing would be left out of a bill."""
    rows = TABLE.regions[DEFAULT_REGION]
    assert set(rows) >= ALL
    assert all(row.date and row.source and row.usd > 0 for row in rows.values())
    assert not rows["ec2:i4i.2xlarge"].confirmed  # sources contradict each other


def test_two_products_are_no_answer() -> None:
    """Which of them is billed nobody can know; their numbers and usage types are named."""
    found = _filter("s3_put")
    twice = [product(sku, DEFAULT_REGION, {"0": 1.0}, usagetype="Requests-Tier1", group="S3-API-Tier1") for sku in "AB"]
    with pytest.raises(PriceListError, match=r"2 products of AmazonS3 in us-east-1 match: A \(Requests-Tier1\), B"):
        select("s3_put", found, DEFAULT_REGION, twice)
    with pytest.raises(PriceListError, match="0 products of AmazonS3"):
        select("s3_put", found, DEFAULT_REGION, [])


def test_of_one_usage_with_and_without_the_region_s_code_the_bare_one_is_taken() -> None:
    """us-east-1 lists DynamoDB's storage under both names."""
    found = _filter("dynamodb_storage")
    names = {"BARE": "TimedStorage-ByteHrs", "CODED": "USE1-TimedStorage-ByteHrs"}
    both = [product(sku, DEFAULT_REGION, {"0": 0.25}, usagetype=name) for sku, name in names.items()]
    assert select("dynamodb_storage", found, DEFAULT_REGION, both).sku == "BARE"


def test_what_is_free_has_no_price() -> None:
    """A price of nothing would make every bill too small."""
    free = product("FREE", DEFAULT_REGION, {"0": 0.0}, usagetype="Requests-Tier1", group="S3-API-Tier1")
    with pytest.raises(PriceListError, match="FREE has no price on demand"):
        select("s3_put", _filter("s3_put"), DEFAULT_REGION, [free])


def test_a_refresh_keeps_what_it_did_not_find_and_refuses_what_cannot_be_right() -> None:
    """A price per million where one per request was expected would make a run look a million times as dear."""
    row = PriceRow(usd=1.0, unit="request", date="2025-01-01", source="a page", confirmed=False)
    asked = PriceFilter(service="S", usages=("Requests",))
    then = {"a": row.model_copy(update={"usd": 0.9})}
    rows = {"a": row.model_copy(update={"asked": asked}), "b": row, "c": row}
    before = PriceTable(regions={DEFAULT_REGION: rows}, published=then)
    found = {"a": ListedPrice("SKU", 1.2, "Requests"), "b": ListedPrice("OTHER", 1e6, "Requests")}
    after, refused = refresh(before, DEFAULT_REGION, found, "2026-01-02")
    rows = after.regions[DEFAULT_REGION]
    assert (rows["a"].usd, rows["a"].date, rows["a"].sku, rows["a"].confirmed) == (1.2, "2026-01-02", "SKU", True)
    assert (rows["a"].asked, rows["b"], rows["c"], after.published) == (asked, row, row, then)
    assert refused == ["b: 1000000 per Requests (SKU OTHER) cannot be what was 1"]


def test_another_region_s_prices_stand_beside_us_east_1_s() -> None:
    """The unit is that of the same price there."""
    row = PriceRow(usd=1.0, unit="request", date="2025-01-01", source="a page", confirmed=False)
    before = PriceTable(regions={DEFAULT_REGION: {"a": row}})
    after, _ = refresh(before, "eu-west-1", {"a": ListedPrice("SKU", 1.1, "Requests")}, "2026-01-02")
    assert after.regions["eu-west-1"]["a"].unit == "request"
    assert after.regions[DEFAULT_REGION] == before.regions[DEFAULT_REGION]
    assert PriceTable.model_validate_json(after.to_json()) == after


def test_a_first_price_of_a_region_is_held_against_us_east_1_s() -> None:
    """A price of a million would be taken for the price of one wherever the region was refreshed for the first time."""
    row = PriceRow(usd=2e-7, unit="request", date="2025-01-01", source="a page", confirmed=True)
    before = PriceTable(regions={DEFAULT_REGION: {"a": row}})
    after, refused = refresh(before, "eu-west-1", {"a": ListedPrice("SKU", 0.2, "1M requests")}, "2026-01-02")
    assert after.regions["eu-west-1"] == {}
    assert refused == ["a: 0.2 per 1M requests (SKU SKU) cannot be what was 2e-07"]


def test_a_region_without_prices_has_us_east_1_s_and_says_so() -> None:
    """Most other regions are dearer."""
    assert find_price("s3_put", "ap-northeast-1") == find_price("s3_put", DEFAULT_REGION)
    assert describe_prices("ap-northeast-1").startswith("us-east-1, which stand for ap-northeast-1, none older than 20")
    (line,) = prices.bill(prices.line(prices.S3_PUT, 10), region="ap-northeast-1").lines
    assert line.note == "us-east-1's price"


def test_an_instance_without_a_price_is_named() -> None:
    """Any type may be deployed; what it costs is not guessed from its neighbours."""
    unknown = instance("ec2", "x99.mega")
    assert prices.bill(prices.line(unknown, 1)).unpriced == (unknown,)
    assert find_filter("ec2:") is None
    assert find_filter("nothing") is None
