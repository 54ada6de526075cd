"""Which of AWS's servers a host name belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepbench.drivers.sql.access import find_authorities, rds_region

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("bench.cluster-abc.us-east-1.rds.amazonaws.com", "us-east-1"),
        ("bench.proxy-abc.us-gov-west-1.rds.amazonaws.com", "us-gov-west-1"),
        ("bench.cluster-abc.rds.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("abc.dsql.us-east-1.on.aws", ""),
        ("rds.amazonaws.com", ""),
        ("us-east-1.rds.amazonaws.com.example.org", ""),
        ("10.0.0.1", ""),
    ],
)
def test_the_region_of_a_server_of_rds_is_in_its_name(host: str, region: str) -> None:
    """Only names in AWS's own domains count."""
    assert rds_region(host) == region


def test_each_host_has_the_file_of_those_who_sign_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the layer has no file for is the system's to know."""
    hosts = {
        "bench.cluster-abc.us-east-1.rds.amazonaws.com": "us-east-1.pem",
        "bench.cluster-abc.xx-new-1.rds.amazonaws.com": "",
        "abc.dsql.us-east-1.on.aws": "amazon.pem",
        "abc.dsql-gamma.us-east-1.on.aws": "amazon.pem",
        "localhost": "",
    }
    assert [find_authorities(host) for host in hosts] == [""] * len(hosts)
    package = tmp_path / "stepbench_authorities"
    package.mkdir()
    for name in ("__init__.py", "us-east-1.pem", "amazon.pem"):
        (package / name).touch()
    monkeypatch.syspath_prepend(tmp_path)
    expected = [str(package / name) if name else "" for name in hosts.values()]
    assert [find_authorities(host) for host in hosts] == expected
