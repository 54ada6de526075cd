"""The price list is played by botocore's Stubber, which checks requests against the service's model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import Stubber
from tests.unit.tools.test_prices import catalogue

from stepbench.costs.prices import DEFAULT_REGION, price_table
from stepbench_tools.cli.parser import main
from stepbench_tools.prices import asked_for, find_filter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEYS = [*price_table().regions[DEFAULT_REGION]]


@pytest.fixture
def stubber(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    """Every expected question must have been asked by the end."""
    client = boto3.client("pricing", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")  # noqa: S106 -- none
    monkeypatch.setattr(boto3, "client", lambda *_, **__: client)
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def expect(stubber: Stubber, key: str, usd: float, **answer: Any) -> None:  # noqa: ANN401 -- an answer's fields
    """Expect the question for a key in us-east-1, and answer with its product among others."""
    found = find_filter(key)
    assert found is not None
    asked = {"ServiceCode": found.service, "Filters": asked_for(found, DEFAULT_REGION), "FormatVersion": "aws_v1"}
    documents = catalogue(key, usd=usd)
    stubber.add_response("get_products", {"FormatVersion": "aws_v1", "PriceList": documents, **answer}, asked)


def test_every_price_is_asked_for_and_written(
    stubber: Stubber, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tenth dearer each, and one instance more; the file is what the next version comes with."""
    rows = price_table().regions[DEFAULT_REGION]
    for key in KEYS:
        expect(stubber, key, rows[key].usd * 1.1)
    expect(stubber, "ec2:m7g.large", 0.0816)
    path = tmp_path / "prices.json"
    assert main(["prices", "--refresh", "--add", "ec2:m7g.large", "--file", str(path)]) == 0
    written = json.loads(path.read_text())["regions"][DEFAULT_REGION]
    assert written["s3_put"]["usd"] == pytest.approx(0.0000055)
    assert written["ec2:m7g.large"]["unit"] == "hour"
    assert {row["confirmed"] for row in written.values()} == {True}
    assert "ec2:m7g.large" in capsys.readouterr().out


def test_a_price_list_that_does_not_answer_leaves_the_table_as_it_is(
    stubber: Stubber, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without credentials, say: the first refusal is the last question."""
    stubber.add_client_error("get_products", "AccessDeniedException", "not authorized")
    path = tmp_path / "prices.json"
    assert main(["prices", "--refresh", "--file", str(path)]) == 4
    assert not path.exists()
    said = capsys.readouterr()
    assert said.out == ""
    assert "nothing is written: AWS has answered no price of us-east-1" in said.err
    assert "AWS's price list does not answer" in said.err


def test_what_aws_has_answered_is_written_and_counted(
    stubber: Stubber, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then it stopped: the one price is new, and all others are as they were."""
    first, second = KEYS[:2]
    before = price_table().regions[DEFAULT_REGION]
    expect(stubber, first, before[first].usd * 1.1)
    stubber.add_client_error("get_products", "ThrottlingException", "slow down")
    path = tmp_path / "prices.json"
    assert main(["prices", "--refresh", "--file", str(path)]) == 4
    written = json.loads(path.read_text())["regions"][DEFAULT_REGION]
    assert written[first]["usd"] == pytest.approx(before[first].usd * 1.1)
    assert written[second]["usd"] == before[second].usd
    assert f"1 price of {DEFAULT_REGION} written to {path}" in capsys.readouterr().err


def test_what_has_no_price_is_refused_before_anything_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """A misspelt service would otherwise be left out silently."""
    assert main(["prices", "--refresh", "--add", "ec3:m7g.large"]) == 2
    assert "ec2:TYPE" in capsys.readouterr().err


@pytest.mark.parametrize("refresh", [(), ("--refresh",)])
def test_a_misspelt_region_is_refused(capsys: pytest.CaptureFixture[str], refresh: tuple[str, ...]) -> None:
    """Its prices were us-east-1's, and nothing is asked of AWS."""
    assert main(["prices", "--region", "eu-wets-1", *refresh]) == 2
    assert '--region: is no region of AWS that is known here (got "eu-wets-1"). Did you mean "eu-west-1"?' in (
        capsys.readouterr().err
    )


def test_the_table_says_whose_price_it_is_and_whether_it_is_confirmed(capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody budgets by it."""
    assert main(["prices", "--region", "eu-west-1"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines.keys() == price_table().regions[DEFAULT_REGION].keys()
    assert "us-east-1's price" in lines["s3_put"]
    assert "$0.000005 " in lines["s3_put"]
    assert lines["ec2:i4i.2xlarge"].endswith("not confirmed")
