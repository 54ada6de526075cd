"""What a folder says of its function."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.errors import PlanError
from stepbench_tools.local.packing.discovery import discover, sample_rows

if TYPE_CHECKING:
    from pathlib import Path

HANDLER = "def handler(event, context): ..."
SAM = """
Resources:
  Orders:
    Type: AWS::Serverless::Function
    Properties:
      CodeUri: src/
      Handler: orders.handler   # ours
      Timeout: 10
      MemorySize: 512
      Environment: {Variables: {TABLE: !Ref Table}}
"""


def test_a_template_says_where_the_code_is(tmp_path: Path) -> None:
    """Handler, folder and limits, past CloudFormation's tags."""
    (tmp_path / "template.yaml").write_text(SAM)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/orders.py").write_text(HANDLER)
    (tmp_path / "app.py").write_text(HANDLER)
    found = discover(tmp_path)
    assert (found.folder, found.handler.name) == (tmp_path / "src", "orders.handler")
    assert found.limits == {"timeout_s": 10, "memory_mib": 512}


def test_serverless_names_paths(tmp_path: Path) -> None:
    """And several functions, of which the first is taken, and the others are listed."""
    (tmp_path / "serverless.yml").write_text(
        "functions:\n  a:\n    handler: src/a.handler\n  b:\n    handler: b.handler\n"
    )
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.js").write_text("exports.handler = 1")
    (tmp_path / "b.js").write_text("exports.handler = 1")
    found = discover(tmp_path)
    assert (found.handler.name, found.others, found.limits) == ("src/a.handler", ("b.handler",), {})


def test_a_template_that_names_what_is_not_there_is_passed_over(tmp_path: Path) -> None:
    """What is in the folder counts."""
    (tmp_path / "template.yaml").write_text(SAM)
    (tmp_path / "app.py").write_text(HANDLER)
    assert discover(tmp_path).handler.name == "app.handler"


def test_a_folder_without_a_handler_is_refused(tmp_path: Path) -> None:
    """With what to look for."""
    with pytest.raises(PlanError, match="--function: has no file that looks like a Lambda handler"):
        discover(tmp_path)


@pytest.mark.parametrize(
    ("document", "store", "rows"),
    [
        ({"a": 1}, "dynamodb", [{"a": 1}]),
        ({"a": 1}, "s3", [{"body": '{"a": 1}'}]),
        ([1], "dynamodb", []),
        ({"Records": [{"dynamodb": {"NewImage": {"n": {"N": "5"}, "k": {"S": "x"}}, "Keys": {"k": {"S": "x"}}}}]},
         "dynamodb", [{"n": 5}]),
        ({"Records": [{"s3": {}}]}, "s3", []),
        ({"Records": [{"dynamodb": 5}]}, "dynamodb", []),
        ({"Records": [{"dynamodb": {"NewImage": {"n": 5}}}]}, "dynamodb", []),
        ({"Records": [{"dynamodb": {"NewImage": {"n": {}}}}]}, "dynamodb", []),
        ({"Records": [{"dynamodb": {"NewImage": {"n": {"N": "many"}}}}]}, "dynamodb", []),
        ({"Records": [{"dynamodb": {"NewImage": {"n": {"N": [5]}}}}]}, "dynamodb", []),
        ({"Records": [{"dynamodb": {"NewImage": {"n": {"M": 5}}, "Keys": None}}]}, "dynamodb", []),
        ({"a": float("inf")}, "dynamodb", []),
        ({"a": "\ud800"}, "dynamodb", []),
    ],
)  # fmt: skip
def test_samples_are_rows(tmp_path: Path, document: Any, store: str, rows: list[dict[str, Any]]) -> None:  # noqa: ANN401 -- JSON
    """Of a stream's event the items, without the keys, which are the trial's."""
    (tmp_path / "events").mkdir()
    (tmp_path / "events/one.json").write_text(json.dumps(document))
    (tmp_path / "events/bad.json").write_text("{")
    assert list(sample_rows(tmp_path, store)) == rows
