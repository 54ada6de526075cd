"""What a folder says of its function: handler, runtime and limits from a template, samples from `events/`."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.errors import PlanError
from stepbench_tools.local.packing.dependencies import NODE_MODULES
from stepbench_tools.local.packing.folder import list_files, refusal
from stepbench_tools.local.packing.handlers import Handler, find_handler, likely_handlers

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEMPLATES = ("template.yaml", "template.yml", "serverless.yml", "serverless.yaml")
_FIELD = re.compile(
    r"^\s*-?\s*(handler|codeuri|timeout|memorysize)\s*:\s*['\"]?([\w./-]+)['\"]?\s*(?:#.*)?$",
    re.IGNORECASE | re.MULTILINE,
)
_LIMITS = {"timeout": ("timeout_s", 900), "memorysize": ("memory_mib", 10_240)}
_MOST_SAMPLES, _MOST_SAMPLE_BYTES = 20, 30_000


class Found(NamedTuple):
    """A function that a folder holds: the code's own folder, its handler, limits as plans have them, and others."""

    folder: Path
    handler: Handler
    limits: dict[str, int]
    others: tuple[str, ...]


def discover(folder: Path) -> Found:
    """
    Return the function of a folder: the first that a template names and that is there, else the likeliest.

    Raises:
        PlanError: there is no such folder, or nothing in it looks like a handler.
    """
    files = list_files(folder, frozenset({NODE_MODULES}))
    fields = _template_fields(files)
    limits = {_LIMITS[name][0]: int(value) for name, value in fields if name in _LIMITS and _is_limit(name, value)}
    declared = list(_declared(folder, fields))
    likely = [(folder, each) for each in likely_handlers(files)]
    if not declared and not likely:
        remedy = "Name the folder of the file that defines it; in Python `def handler(event, context)`."
        raise refusal(folder, "has no file that looks like a Lambda handler", remedy, "--function")
    of, handler = (declared or likely)[0]
    others = (each.name for _, each in (declared or likely)[1:])
    return Found(of, handler, limits if len(declared) == 1 else {}, tuple(dict.fromkeys(others)))


def _template_fields(files: dict[str, Path]) -> list[tuple[str, str]]:
    """Return fields of a template by their lines: its tags, such as !Sub, are CloudFormation's, and of no use here."""
    for name in _TEMPLATES:
        if name in files:
            return [(key.lower(), value) for key, value in _FIELD.findall(files[name].read_text(errors="replace"))]
    return []


def _is_limit(name: str, value: str) -> bool:
    return value.isdecimal() and 0 < int(value) <= _LIMITS[name][1]


def _declared(folder: Path, fields: list[tuple[str, str]]) -> Iterator[tuple[Path, Handler]]:
    folders = [folder, *(folder / value for name, value in fields if name == "codeuri")]
    for name, value in fields:
        for each in dict.fromkeys(folders) if name == "handler" else ():
            try:
                yield each, find_handler(each, list_files(each, frozenset({NODE_MODULES})), value, None)
                break
            except PlanError:
                continue


def sample_rows(folder: Path, store: str) -> tuple[dict[str, Any], ...]:
    """Return rows for a store from the samples in `events/*.json`: of a stream's event the items, else objects."""
    rows: list[dict[str, Any]] = []
    for path in sorted((folder / "events").glob("*.json"))[:_MOST_SAMPLES]:
        # Other tools' files, which may be of any form: what is no sample is skipped.
        with suppress(OSError, ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError):
            found = list(_rows(json.loads(path.read_text("utf-8")), store))
            json.dumps(found, ensure_ascii=False, allow_nan=False).encode()  # or else no plan takes it
            rows += found
    kept = [row for row in rows if row]
    return tuple(kept) if len(json.dumps(kept)) <= _MOST_SAMPLE_BYTES else ()


def _rows(document: Any, store: str) -> Iterator[dict[str, Any]]:  # noqa: ANN401 -- any JSON
    records = document.get("Records") if isinstance(document, dict) else None
    if isinstance(records, list):
        for record in records:
            image = record.get("dynamodb", {}).get("NewImage") if isinstance(record, dict) else None
            if isinstance(image, dict) and store == "dynamodb":
                keys = record["dynamodb"].get("Keys", {})
                yield {name: _plain(value) for name, value in image.items() if name not in keys}
    elif isinstance(document, dict):
        yield {"body": json.dumps(document)} if store == "s3" else document


def _plain(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    """Return what a typed value of DynamoDB's says, such as `{"N": "5"}`."""
    ((kind, inner),) = value.items()
    match kind:
        case "N":
            return float(inner) if re.search(r"[.eE]", inner) else int(inner)
        case "M":
            return {name: _plain(each) for name, each in inner.items()}
        case "L":
            return [_plain(each) for each in inner]
        case "NULL":
            return None
    return inner
