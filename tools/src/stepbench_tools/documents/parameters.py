"""
The table of docs/parameters.md: what a stack can be deployed with, as the template describes it.

`python -m stepbench_tools.documents.parameters docs/parameters.md` writes it anew; a test holds the page against it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml import YAML

from stepbench.planning.presets import preset_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLE = re.compile(r"(<!-- begin parameters -->\n).*?(<!-- end parameters -->)", re.DOTALL)


def updated(page: str, template: str) -> str:
    """Return the page with the table of the template's parameters, in the template's order."""
    rows = _rows(YAML().load(template)["Parameters"])
    table = "\n".join(("| name | default | values | |", "|---|---|---|---|", *rows))
    return _TABLE.sub(lambda found: f"{found[1]}{table}\n{found[2]}", page)


def _rows(parameters: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name, body in parameters.items():
        default = f"`{body['Default']}`" if body.get("Default", "") != "" else "empty"
        yield f"| `{name}` | {default} | {_values(body)} | {body['Description'].strip()} |"


def _values(body: dict[str, Any]) -> str:
    """Return the values that a parameter takes, as far as the template lists them or bounds them by number."""
    if "AllowedValues" in body:
        return ", ".join(str(each) for each in body["AllowedValues"])
    if "MaxValue" in body:
        return f"{body['MinValue']} to {body['MaxValue']}"
    return f"from {body['MinValue']}" if "MinValue" in body else ""


if __name__ == "__main__":
    path = Path(sys.argv[1])
    source = preset_directory().parents[1] / "template.yaml"
    path.write_text(updated(path.read_text("utf-8"), source.read_text("utf-8")), "utf-8")
