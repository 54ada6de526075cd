"""The base of all contract models, reports of broken rules that span several fields, and the words of remedies."""

from __future__ import annotations

import difflib
import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from stepbench.errors import LONGEST_ERROR, find_control

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Contract(BaseModel):
    """
    A frozen model that refuses unknown fields, and numbers that are none or endless, which no JSON has.

    Its errors, which are logged, do not repeat what they refuse.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False)


_UNPRINTABLE = "unprintable"


def _printable(text: Any) -> Any:  # noqa: ANN401 -- anything may stand there
    """Return a text on one line; a character that controls anything else is refused."""
    if not isinstance(text, str):
        return text
    text = " ".join(text.split())
    if character := find_control(text):
        message = f"holds U+{ord(character):04X}, which controls terminals or the direction of letters"
        raise PydanticCustomError(_UNPRINTABLE, "{message}", {"message": message})
    return text


Text = Annotated[str, BeforeValidator(_printable)]
"""For people: it reaches terminals, Markdown and pages. Line breaks become blanks."""
ForeignText = Annotated[str, AfterValidator(lambda text: text[:LONGEST_ERROR])]
"""A short text of a store's, or of a row's, such as an error: what is longer is cut."""
RULE_ERROR = "rule"
"""The pydantic error type of broken rules; its context holds them under `broken`."""


class BrokenRule(NamedTuple):
    """A rule that is broken, with the way out. `at` is the path of the field, below the model that states the rule."""

    at: str
    message: str
    remedy: str


def refuse(broken: Iterable[BrokenRule]) -> None:
    """
    Raise one error with all broken rules, if there are any.

    Raises:
        PydanticCustomError: from inside a validator pydantic turns it into a ValidationError.
    """
    found = list(broken)
    if found:
        text = "; ".join(f"{rule.at}: {rule.message}. {rule.remedy}" for rule in found)
        context = {"text": text, "broken": [rule._asdict() for rule in found]}
        raise PydanticCustomError(RULE_ERROR, "{text}", context)


FIELDS_ALONE = "fields alone"
"""The validation context under which no rule is asked; `find_broken_rules` asks all of them then."""


class RuledContract(Contract):
    """
    A contract with rules that span several of its fields; they are asked once each field is valid by itself.

    APART: whether the rules of what holds it make sense whatever its own say.
    """

    APART: ClassVar[bool] = False

    @abstractmethod
    def _broken_rules(self) -> Iterable[BrokenRule]: ...

    def _find_broken(self) -> tuple[list[BrokenRule], bool]:
        """Return what is broken, and whether the rules of what holds it would make no sense."""
        broken = list(self._broken_rules())
        return broken, bool(broken) and not self.APART

    @model_validator(mode="after")
    def _keep_rules(self, info: ValidationInfo) -> Self:
        if info.context != FIELDS_ALONE:
            refuse(self._broken_rules())
        return self


def find_broken_rules(model: Contract) -> tuple[list[BrokenRule], bool]:
    """
    Return what is broken in a contract and below, by paths from there, and whether some rules could not be asked.

    Validation itself asks no rule of what holds a part with a broken one, so people would mend a plan in several turns.
    """
    return _broken_below(model, "")


def _broken_below(value: object, at: str) -> tuple[list[BrokenRule], bool]:
    parts: Iterable[tuple[str, object]] = ()
    if isinstance(value, BaseModel):
        parts = ((f"{at}.{name}".lstrip("."), getattr(value, name)) for name in type(value).model_fields)
    elif isinstance(value, tuple):
        parts = ((f"{at}[{index}]", each) for index, each in enumerate(value))
    below = [_broken_below(part, path) for path, part in parts]
    found = [rule for rules, _ in below for rule in rules]
    blocked = any(held for _, held in below)
    if isinstance(value, RuledContract) and not blocked:
        own, blocked = value._find_broken()  # noqa: SLF001 -- one idea in one module
        found += (rule._replace(at=f"{at}.{rule.at}".strip(".")) for rule in own)
    return found, blocked


def drop_field(fields: Any, name: str) -> Any:  # noqa: ANN401 -- anything may stand where a model is expected
    """Return a document without a field that older versions had."""
    return {key: value for key, value in fields.items() if key != name} if isinstance(fields, dict) else fields


def repeated_names(field: str, names: Sequence[str | None]) -> Iterator[BrokenRule]:
    """Yield the items of a list that have the name of an earlier one; None is no name."""
    for index, name in enumerate(names):
        if name is not None and name in names[:index]:
            message = f"is the name of {field}[{names.index(name)}] too"
            yield BrokenRule(f"{field}[{index}].name", message, f"Give each of the {field} a name of its own.")


def alternatives(words: Iterable[object]) -> str:
    """Return `"a", "b", "c"`."""
    return ", ".join(json.dumps(word, ensure_ascii=False) for word in words)


def nearest(word: object, known: Iterable[str]) -> str:
    """Return the known word that is most like it; "" where none is."""
    close = difflib.get_close_matches(str(word).lower(), list(known), n=1, cutoff=0.5)
    return close[0] if close else ""


def near_miss(word: object, known: Iterable[str]) -> str:
    """Return `Did you mean "x"? `, or nothing."""
    close = nearest(word, known)
    return f'Did you mean "{close}"? ' if close else ""
