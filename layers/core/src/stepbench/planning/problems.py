"""Pydantic's errors in the words of a plan's author: path, value found, what is wrong, what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from stepbench.contracts.problem import Problem
from stepbench.contracts.rule import RULE_ERROR
from stepbench.planning.schema import Place, fields, locate, path_text
from stepbench.planning.wording import alternatives, expectation, near_miss, shown

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

NOTHING = "nothing"
_STEP = re.compile(r"[^.\[\]]+")
"""Steps of the paths that our own rules name, such as `phases[1].load`."""
LATER_STORES = frozenset({"redis", "cassandra", "dsql", "efs", "sqs", "sns", "kinesis", "eventbridge"})
"""Stores of the design that no driver serves yet."""


def problems_of(error: ValidationError, document: dict[str, Any]) -> list[Problem]:
    """Every problem of a refused plan, in the order of the document's paths as pydantic found them."""
    details = error.errors(include_url=False, include_input=False)
    causes = [detail for detail in details if not _follows(detail, details)]
    return [problem for detail in causes for problem in _problems(detail, document)]


def _follows(detail: ErrorDetails, others: list[ErrorDetails]) -> bool:
    """Pydantic drops bad entries from a list and then finds it too short: said once is enough."""
    depth = len(detail["loc"])
    below = (len(other["loc"]) > depth and other["loc"][:depth] == detail["loc"] for other in others)
    return detail["type"] == "too_short" and any(below)


def _problems(detail: ErrorDetails, document: dict[str, Any]) -> list[Problem]:
    place = locate(detail["loc"])
    if detail["type"] == RULE_ERROR:
        return [_rule_problem(place, rule, document) for rule in detail["ctx"]["broken"]]
    found = value_at(document, place.steps)
    return [_TRANSLATIONS.get(detail["type"], _unexpected)(place, found, detail)]


def value_at(document: dict[str, Any], steps: tuple[str | int, ...]) -> str:
    """What the document holds there, shown; "nothing" where it holds nothing."""
    value: Any = document
    for step in steps:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return NOTHING
    return shown(value)


def _rule_problem(place: Place, rule: dict[str, str], document: dict[str, Any]) -> Problem:
    below = (int(name) if name.isdigit() else name for name in _STEP.findall(rule["at"]))
    steps = (*place.steps, *below)
    found = value_at(document, steps)
    return Problem(path=path_text(steps), value=found, message=rule["message"], remedy=rule["remedy"])


def _missing(place: Place, _found: str, _detail: ErrorDetails) -> Problem:
    remedy = f'Add "{place.steps[-1]}": {expectation(place.node)}.'
    return Problem(path=place.path, value=NOTHING, message="is missing", remedy=remedy)


def _unknown_field(place: Place, found: str, _detail: ErrorDetails) -> Problem:
    known = fields(place.parent)
    remedy = f"{near_miss(place.steps[-1], known)}Known here: {alternatives(known)}."
    return Problem(path=place.path, value=found, message="is no known field", remedy=remedy)


def _unknown_variant(place: Place, _found: str, detail: ErrorDetails) -> Problem:
    tag = place.node["discriminator"]["propertyName"]
    known = list(place.node["discriminator"]["mapping"])
    named = str(detail["ctx"]["tag"])
    later = named in LATER_STORES
    return Problem(
        path=f"{place.path}.{tag}",
        value=shown(named),
        message=f"is a {tag} that is not supported yet" if later else f"is no known {tag}",
        remedy=f"{'' if later else near_miss(named, known)}Use one of {alternatives(known)}.",
    )


def _missing_variant(place: Place, found: str, _detail: ErrorDetails) -> Problem:
    tag = place.node["discriminator"]["propertyName"]
    remedy = f'Add "{tag}": one of {alternatives(place.node["discriminator"]["mapping"])}.'
    return Problem(path=f"{place.path}.{tag}", value=NOTHING, message=f"is missing in {found}", remedy=remedy)


def _wrong_choice(place: Place, found: str, _detail: ErrorDetails) -> Problem:
    known = [str(word) for word in place.node.get("enum", [place.node.get("const")])]
    remedy = f"{near_miss(found.strip(chr(34)), known)}Use {expectation(place.node)}."
    return Problem(path=place.path, value=found, message="is not one of the choices", remedy=remedy)


def _too_short(place: Place, found: str, _detail: ErrorDetails) -> Problem:
    message = "is empty" if found in {"[]", "{}", '""'} else "is too short"
    return Problem(path=place.path, value=found, message=message, remedy=f"Give {expectation(place.node)}.")


def _bad_name(place: Place, found: str, _detail: ErrorDetails) -> Problem:
    remedy = f"Give {expectation(place.node)}."
    return Problem(path=place.path, value=found, message="is no valid name", remedy=remedy)


def _unexpected(place: Place, found: str, detail: ErrorDetails) -> Problem:
    remedy = f"Give {expectation(place.node)}."
    return Problem(path=place.path, value=found, message=_message(detail["msg"]), remedy=remedy)


def _message(pydantic_message: str) -> str:
    """`Input should be greater than 0` → `should be greater than 0`."""
    text = pydantic_message.removeprefix("Input ").replace("should be", "has to be")
    return f"{text[:1].lower()}{text[1:]}".replace(" an instance of Plan", "").rstrip(".")


_TRANSLATIONS = {
    "missing": _missing,
    "extra_forbidden": _unknown_field,
    "union_tag_invalid": _unknown_variant,
    "union_tag_not_found": _missing_variant,
    "literal_error": _wrong_choice,
    "too_short": _too_short,
    "string_too_short": _too_short,
    "string_pattern_mismatch": _bad_name,
}
