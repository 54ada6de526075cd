from __future__ import annotations

import re
from pathlib import Path

import pytest

from stepbench.planning import list_plans, parse_plan, plan_schema

PAGE = (Path(__file__).parents[3] / "docs" / "plans.md").read_text()


def test_the_page_s_example_is_a_plan() -> None:
    """Readers copy it."""
    example = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    assert parse_plan(example[1]).trials[0].writers == 10


@pytest.mark.parametrize("model", ["Plan", *plan_schema()["$defs"]])
def test_every_field_is_explained(model: str) -> None:
    """A field that is not on the page does not exist for its reader."""
    schema = plan_schema() if model == "Plan" else plan_schema()["$defs"][model]
    assert [name for name in schema["properties"] if name not in PAGE] == []


def test_every_preset_is_listed() -> None:
    """By its name, or as one of a family: `quick-unloaded-s3`, `-dynamodb`, ..."""
    stores = ("s3", "dynamodb", "postgresql", "etcd")
    families = {name.removesuffix(f"-{store}") for name in list_plans() for store in stores}
    assert [name for name in list_plans() if name not in PAGE and f"`-{name.rpartition('-')[2]}`" not in PAGE] == []
    assert all(family in PAGE for family in families if not family.endswith(stores))
