"""The manifest of a run."""

from __future__ import annotations

from stepbench.contracts.base import Contract


class Manifest(Contract):
    """`manifest.json`: what a reader needs to trust or repeat the run."""

    run_id: str
    stepbench_version: str
    code_sha256: str
    libraries: dict[str, str]
    region: str
    runtime: str
    architecture: str
    emulated: bool
    price_table_date: str
    functions: dict[str, dict[str, str | int]]
    stores: dict[str, str]
    sandboxes: int
