"""Calls of AWS's command line against botocore's descriptions of the services: operations, options, values."""

from __future__ import annotations

import json
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import botocore.session
import jmespath
from botocore import xform_name
from botocore.validate import ParamValidator

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from botocore.model import Shape

OF_THE_COMMAND_LINE = {"query", "output", "region", "max-items", "cli-read-timeout", "cli-binary-format"}
"""Options of every command, and of those that return pages."""
OUTPUTS = {"json", "text", "table", "yaml", "yaml-stream"}
FILE_COMMANDS = {"cp": {"recursive", "exclude", "include"}, "sync": {"exclude", "include", "delete"}}
"""Of `aws s3`, which is no service's description, with the options that are taken here."""
TO_A_FILE = {("lambda", "invoke")}
"""Operations that take a file's name, after the options, for what is returned."""


COMMANDS_OF = {"s3api": "s3"}
"""Names that the command line has for a service's description."""


@cache
def _session() -> botocore.session.Session:
    return botocore.session.get_session()


def problems(words: Sequence[str], folder: Path) -> str:
    """
    Return what AWS's command line would refuse of a call, empty if nothing.

    Args:
        words: service, operation and options.
        folder: where `file://` is read.
    """
    service, operation, *rest = words
    options, others = _options(rest)
    if service == "s3":
        unknown = options.keys() - FILE_COMMANDS[operation]
        one_there = sum(each.startswith("s3://") for each in others)
        return f"unknown: {unknown}" if unknown else "" if len(others) == 2 and one_there else f"from where? {others}"
    service = COMMANDS_OF.get(service, service)
    found = [name for name in _operations(service) if xform_name(name, "-") == operation]
    if not found:
        return f"{service} has no {operation}"
    shape = _session().get_service_model(service).operation_model(found[0]).input_shape
    shapes = dict(shape.members) if shape else {}
    members = {xform_name(name, "-"): name for name in shapes}
    unknown = options.keys() - members.keys() - OF_THE_COMMAND_LINE
    if unknown or len(others) != ((service, operation) in TO_A_FILE):
        return f"unknown: {sorted(unknown)} {others}"
    _check_output(options)
    given = {members[n]: _value(shapes[members[n]], v, folder) for n, v in options.items() if n in members}
    return str(ParamValidator().validate(given, shape).generate_report()) if shape else ""


def _operations(service: str) -> list[str]:
    return _session().get_service_model(service).operation_names


def _check_output(options: dict[str, list[str]]) -> None:
    """Raise where a query is none of JMESPath's, or there is no such form of output."""
    for query in options.get("query", ()):
        jmespath.compile(query)
    assert set(options.get("output", ())) <= OUTPUTS


def _options(words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return options with their values, and what belongs to none: the last word where the option before it has one."""
    options: dict[str, list[str]] = {}
    others: list[str] = []
    at = 0
    while at < len(words):
        if not words[at].startswith("--"):
            others.append(words[at])
            at += 1
            continue
        values = list(takewhile(lambda word: not word.startswith("--"), words[at + 1 :]))
        options[words[at].removeprefix("--")] = values
        at += 1 + len(values)
        last = at == len(words) and len(values) > 1 and values[-1].startswith("/dev/")
        if last:
            others.append(values.pop())
    return options, others


def _value(shape: Shape, words: list[str], folder: Path) -> Any:  # noqa: ANN401 -- any parameter's value
    """Return a value as the service is sent it: JSON, a file's text, or the short form of lists and structures."""
    text = " ".join(words)
    if text.startswith("file://"):
        text = (folder / text.removeprefix("file://")).read_text()
    if shape.type_name in {"structure", "map", "list"} and text[:1] in {"{", "["}:
        return json.loads(text)
    if shape.type_name == "list":
        return [_value(shape.member, [word], folder) for word in words]  # type: ignore[attr-defined]
    if shape.type_name in {"structure", "map"}:
        return dict(pair.split("=", 1) for pair in text.split(","))
    if shape.type_name in {"integer", "long"}:
        return int(text)
    enum = getattr(shape, "enum", ())
    assert not enum or text in enum, f"{text} is none of {enum}"
    return text
