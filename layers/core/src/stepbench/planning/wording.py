"""Words for a schema's constraints and for values found: what a reader needs to mend a plan."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepbench.planning.schema import Node

LONGEST_VALUE = 80
_KINDS = {
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


def expectation(node: Node) -> str:
    """What a field takes, in words: "a whole number, at least 1, at most 1,000"."""
    if "discriminator" in node:
        tags = alternatives(node["discriminator"]["mapping"])
        return f'an object {{...}} with "{node["discriminator"]["propertyName"]}" one of {tags}'
    if "enum" in node:
        return f"one of {alternatives(node['enum'])}"
    if "const" in node:
        return json.dumps(node["const"])
    kind = _KINDS.get(node.get("type", ""), "another value")
    bounds = [f"{word} {_plain(node[key])}" for key, word in _BOUNDS if key in node]
    if "maxLength" in node:
        bounds.append(f"{node.get('minLength', 0)} to {node['maxLength']} characters long")
    if "maxItems" in node:
        bounds.append(f"with {node.get('minItems', 0)} to {node['maxItems']} entries")
    if "pattern" in node:
        bounds.append("made of letters, digits, dots, dashes and underscores, beginning with a letter or digit")
    return ", ".join([kind, *bounds])


def _plain(number: float) -> str:
    return f"{int(number):,}" if number == int(number) else f"{number:,}"


def alternatives(words: Iterable[object]) -> str:
    """`"a", "b", "c"`."""
    return ", ".join(json.dumps(word) for word in words)


def near_miss(word: object, known: Iterable[str]) -> str:
    """`Did you mean "x"? `, or nothing."""
    close = difflib.get_close_matches(str(word).lower(), list(known), n=1, cutoff=0.5)
    return f'Did you mean "{close[0]}"? ' if close else ""


def shown(value: Any) -> str:  # noqa: ANN401 -- any JSON
    """A value found, as JSON on one line, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = f"a Python {type(value).__name__}"
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."
