"""What a parameter of a task or a maker may be: said once, for the plan that gives it and for the run that takes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from stepbench.contracts.base import near_miss
from stepbench.contracts.dataflow.dag import Parameter

_CHANGE = "Change it, or leave it out for its default."


class Kind(Protocol):
    """A kind of parameter."""

    def allows(self, value: Parameter) -> bool:
        """Return whether a parameter may have a value."""

    def expected(self) -> str:
        """Return what it has to be: "a number from 0 to 10"."""

    def remedy(self, value: Parameter) -> str:
        """Return what to do about a value that it may not have."""


class Number(NamedTuple):
    """A number within bounds, which are allowed; a whole one may be written as 10.0."""

    least: float
    most: float = math.inf
    whole: bool = False

    def allows(self, value: Parameter) -> bool:
        """Return whether it is such a number; true and false are none."""
        if isinstance(value, (bool, str)) or not math.isfinite(value):
            return False
        return self.least <= value <= self.most and (not self.whole or value == int(value))

    def expected(self) -> str:
        """Return the kind of number, and its bounds."""
        kind = "a whole number" if self.whole else "a number"
        if math.isinf(self.most):
            return f"{kind}, {self.least:,} or more"
        return f"{kind} from {self.least:,} to {self.most:,}"

    def remedy(self, value: Parameter) -> str:
        """Return how to write it, if it is a number in quotes."""
        return "Write it without quotes." if isinstance(value, str) and _is_number(value) else _CHANGE


class Choice(NamedTuple):
    """One of a few words."""

    words: tuple[str, ...]

    def allows(self, value: Parameter) -> bool:
        """Return whether it is one of them."""
        return value in self.words

    def expected(self) -> str:
        """Return all of them."""
        return " or ".join(f'"{word}"' for word in self.words)

    def remedy(self, value: Parameter) -> str:
        """Return which one was probably meant."""
        return f"{near_miss(value, self.words)}{_CHANGE}"


class Text(NamedTuple):
    """A parameter that takes any text."""

    def allows(self, value: Parameter) -> bool:
        """Return whether it is a text."""
        return isinstance(value, str)

    def expected(self) -> str:
        """Return that it is a text."""
        return "a text"

    def remedy(self, value: Parameter) -> str:
        """Return how to write it."""
        return f'Write it in quotes: "{value}".'


class Given(NamedTuple):
    """What a task or a maker is given. timeout_s: of one attempt, where it is known."""

    parameters: Mapping[str, Parameter]
    has_input: bool = True
    timeout_s: float = math.inf


class Fault(NamedTuple):
    """A parameter that cannot be, with the way out; the message follows on its name and its value."""

    name: str
    message: str
    remedy: str


Check: TypeAlias = Callable[[Given], Iterator[Fault]]
"""Rules of an application's own, among several parameters, each of which is of its kind."""


def faults_of_kinds(kinds: Mapping[str, Kind], parameters: Mapping[str, Parameter]) -> Iterator[Fault]:
    """Yield the parameters that are not of their kind."""
    for name, value in parameters.items():
        kind = kinds.get(name)
        if kind is not None and not kind.allows(value):
            yield Fault(name, f"has to be {kind.expected()}", kind.remedy(value))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
