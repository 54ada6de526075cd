"""Pydantic's errors in the terms of a plan's author: path, value found, what is wrong, what to do."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from stepbench.contracts.base import RULE_ERROR, BrokenRule, alternatives, near_miss
from stepbench.errors import HIDDEN, MOST_PROBLEMS, NOT_LISTED, Problem
from stepbench.planning.privacy import holds_rows, without_rows
from stepbench.planning.schema import Location, fields, locate, path_text, place_of, value_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from stepbench.planning.schema import Node

NOTHING = "nothing"
_SECRET = re.compile(r"passw|secret|token|credential|private_?key|api_?key", re.IGNORECASE)
_LOGIN = re.compile(r'[^\s/",:]*:[^\s",]*@')
"""A login in an address, from its user to the @."""
_LOOKED_AT = 1_000
"""So much of a value is searched for logins: that takes time by the square of its length, and more is not shown."""
_ABSENT = object()
_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
"""A step of the paths that our own rules name, such as `phases[1].load`: a place in a list, or a name, even `1`."""
UNSUPPORTED_STORES = ("efs", "eventbridge", "kinesis", "sns", "sqs")
"""Names of AWS services that a plan's author might expect, and that Stepbench does not measure yet."""
LONGEST_VALUE = 80
_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "a text",
    "boolean": "true or false",
    "array": "a list [...]",
    "object": "an object {...}",
}
_BOUNDS = (
    ("minimum", "at least"),
    ("exclusiveMinimum", "above"),
    ("maximum", "at most"),
    ("exclusiveMaximum", "below"),
)


def problems_of(error: ValidationError, document: dict[str, Any]) -> list[Problem]:
    """Return every problem of a refused plan, in the order in which pydantic found them."""
    details = error.errors(include_url=False, include_input=False)
    causes = [detail for detail in details if not _follows(detail, details)]
    found = [problem for detail in causes[:MOST_PROBLEMS] for problem in _problems(detail, document)]
    return [*found, *([NOT_LISTED] * len(causes[MOST_PROBLEMS:]))]


def _follows(detail: ErrorDetails, others: list[ErrorDetails]) -> bool:
    """Pydantic drops bad entries from a list and then finds it too short, which follows from the first error."""
    if detail["type"] == "default_factory_not_called":  # of another field, which is refused itself
        return True
    depth = len(detail["loc"])
    below = (len(other["loc"]) > depth and other["loc"][:depth] == detail["loc"] for other in others)
    return detail["type"] == "too_short" and any(below)


def _problems(detail: ErrorDetails, document: dict[str, Any]) -> list[Problem]:
    location = locate(detail["loc"])
    if detail["type"] == RULE_ERROR:
        return [_rule_problem(location.steps, BrokenRule(**rule), document) for rule in detail["ctx"]["broken"]]
    found = shown_at(document, location.steps)
    if detail["type"] == "extra_forbidden":
        return [_unknown_field(location, found, document)]
    return [_TRANSLATIONS.get(detail["type"], _unexpected)(location, found, detail)]


def shown_at(document: dict[str, Any], steps: tuple[str | int, ...]) -> str:
    """Return what the document holds there, as `shown`; "nothing" where it holds nothing."""
    value = value_at(document, steps, _ABSENT)
    if value is _ABSENT:
        return NOTHING
    return shown_below(steps, value)


def shown_below(steps: tuple[str | int, ...], value: Any) -> str:  # noqa: ANN401 -- any JSON
    """Return a value as `shown`; hidden where its name is a secret's, or where it is a part of somebody's rows."""
    if holds_rows(steps, value) or (steps and _SECRET.search(str(steps[-1]))):
        return HIDDEN
    return shown(value, steps)


def rule_problems(broken: Iterable[BrokenRule], document: dict[str, Any]) -> list[Problem]:
    """Return the problems of broken rules, whose paths are the document's."""
    return [_rule_problem((), rule, document) for rule in broken]


def _rule_problem(above: tuple[str | int, ...], rule: BrokenRule, document: dict[str, Any]) -> Problem:
    below = (int(place) if place else name for place, name in _STEP.findall(rule.at))
    steps = (*above, *below)
    found = shown_at(document, steps)
    return Problem(path=path_text(steps), value=found, message=rule.message, remedy=rule.remedy)


def _missing(location: Location, _found: str, _detail: ErrorDetails) -> Problem:
    remedy = f'Add "{location.steps[-1]}": {expectation(location.node)}.'
    return Problem(path=location.path, value=NOTHING, message="is missing", remedy=remedy)


def _unknown_field(location: Location, found: str, document: dict[str, Any]) -> Problem:
    known = fields(location.parent)
    place = place_of(str(location.steps[-1]), location, document)
    hint = f"It belongs at {place}. " if place else near_miss(location.steps[-1], known)
    remedy = f"{hint}Known here: {alternatives(known)}."
    return Problem(path=location.path, value=found, message="is no known field", remedy=remedy)


def _unknown_variant(location: Location, _found: str, detail: ErrorDetails) -> Problem:
    tag = location.node["discriminator"]["propertyName"]
    known = list(location.node["discriminator"]["mapping"])
    named = str(detail["ctx"]["tag"])
    later = named in UNSUPPORTED_STORES
    return Problem(
        path=f"{location.path}.{tag}",
        value=shown(named),
        message=f"is a {tag} that is not supported yet" if later else f"is no known {tag}",
        remedy=f"{'' if later else near_miss(named, known)}Use one of {alternatives(known)}.",
    )


def _missing_variant(location: Location, found: str, _detail: ErrorDetails) -> Problem:
    tag = location.node["discriminator"]["propertyName"]
    remedy = f'Add "{tag}": one of {alternatives(location.node["discriminator"]["mapping"])}.'
    return Problem(path=f"{location.path}.{tag}", value=NOTHING, message=f"is missing in {found}", remedy=remedy)


def _wrong_choice(location: Location, found: str, _detail: ErrorDetails) -> Problem:
    known = [str(word) for word in location.node.get("enum", [location.node.get("const")])]
    remedy = f"{near_miss(found.strip(chr(34)), known)}Use {expectation(location.node)}."
    return Problem(path=location.path, value=found, message="is not one of the choices", remedy=remedy)


def _unexpected(location: Location, found: str, detail: ErrorDetails) -> Problem:
    message = _message(detail["msg"])
    if detail["type"] in {"too_short", "string_too_short"}:
        message = "is empty" if found in {"[]", "{}", '""'} else "is too short"
    elif detail["type"] == "string_pattern_mismatch":
        message = "is not of a valid form" if "examples" in location.node else "is no valid name"
    return Problem(location.path, found, message, f"Give {expectation(location.node)}.")


def _message(pydantic_message: str) -> str:
    """Turn `Input should be greater than 0` into `has to be greater than 0`."""
    text = pydantic_message.removeprefix("Input ").replace("should be", "has to be")
    return f"{text[:1].lower()}{text[1:]}".replace(" an instance of Plan", "").rstrip(".")


_TRANSLATIONS = {
    "missing": _missing,
    "union_tag_invalid": _unknown_variant,
    "union_tag_not_found": _missing_variant,
    "literal_error": _wrong_choice,
}


def expectation(node: Node) -> str:
    """Describe what a field takes: "a whole number, at least 1, at most 1,000"."""
    if "discriminator" in node:
        tags = alternatives(node["discriminator"]["mapping"])
        return f'an object {{...}} with "{node["discriminator"]["propertyName"]}" one of {tags}'
    if "enum" in node:
        return f"one of {alternatives(node['enum'])}"
    if "const" in node:
        return json.dumps(node["const"])
    kind = _TYPES.get(node.get("type", ""), "another value")
    bounds = [f"{word} {_plain(node[key])}" for key, word in _BOUNDS if key in node]
    if "maxLength" in node:
        bounds.append(f"{node.get('minLength', 0)} to {node['maxLength']} characters long")
    if "maxItems" in node:
        bounds.append(f"with {node.get('minItems', 0)} to {node['maxItems']} entries")
    if "examples" in node:
        bounds.append(f"such as {alternatives(node['examples'])}")
    elif "pattern" in node:
        bounds.append("made of letters, digits, dots, dashes and underscores, beginning with a letter or digit")
    return ", ".join([kind, *bounds])


def _plain(number: float) -> str:
    return f"{int(number):,}" if number == int(number) else f"{number:,}"


def shown(value: Any, steps: tuple[str | int, ...] = ()) -> str:  # noqa: ANN401 -- any JSON
    """
    Return a value, which stands at some steps of a document, as JSON on one line, cut where it is long.

    It ends up in logs and in an execution's history, so what looks like a password is left out.
    """
    try:
        text = json.dumps(_without_secrets(without_rows(value, steps)), ensure_ascii=False)[:_LOOKED_AT]
        text = _LOGIN.sub(f"{HIDDEN}@", text)
    except (TypeError, ValueError, RecursionError):
        text = f"a Python {type(value).__name__}"
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def describe_kind(value: Any) -> str:  # noqa: ANN401 -- any JSON
    """Return what kind of JSON a value is, and nothing of what it holds."""
    names = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list"}
    return "null" if value is None else names.get(type(value), f"a Python {type(value).__name__}")


def _without_secrets(value: Any) -> Any:  # noqa: ANN401 -- any JSON
    match value:
        case dict():
            return {
                name: HIDDEN if _SECRET.search(str(name)) else _without_secrets(each) for name, each in value.items()
            }
        case list():
            return [_without_secrets(each) for each in value]
    return value
