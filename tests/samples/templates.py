"""The templates as CloudFormation reads them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
Json = dict[str, Any]


@cache
def load_template(path: str | Path) -> Json:
    """Return a template of the checkout, or of a path elsewhere; `!GetAtt A.B` is {"Fn::GetAtt": ["A", "B"]}."""
    from cfnlint.decode import cfn_yaml  # type: ignore[import-untyped] # it has none

    loaded: Json = json.loads(json.dumps(cfn_yaml.load(str(ROOT / path))))
    return loaded


def statements(node: Any, action: str = "") -> list[Json]:  # noqa: ANN401 -- JSON
    """Return the statements of policies, wherever they stand below the node: all, or those with this action."""
    if isinstance(node, list):
        return [found for inner in node for found in statements(inner, action)]
    if not isinstance(node, dict):
        return []
    own = [node] if "Effect" in node and (not action or action in listed(node["Action"])) else []
    return own + [found for inner in node.values() for found in statements(inner, action)]


def listed(value: str | list[str]) -> list[str]:
    """Return what may stand alone or in a list as a list."""
    return value if isinstance(value, list) else [value]
