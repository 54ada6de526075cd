"""JSON Schema of `summary.json`; `python -m stepbench.report.schema > docs/summary.schema.json` publishes it."""

from __future__ import annotations

import json
import sys
from typing import Any

from stepbench.contracts.result import RunSummary


def summary_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) that every `summary.json` of this version fulfils."""
    schema = RunSummary.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Stepbench summary"}


if __name__ == "__main__":
    json.dump(summary_schema(), sys.stdout, indent=2)
    sys.stdout.write("\n")
