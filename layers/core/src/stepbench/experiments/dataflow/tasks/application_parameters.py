"""
What a plan may give tasks and makers: parameters, and files.

What a parameter may be is said once, for the plan that gives it and for the run that takes it. Of files: which of them
a stack fetches, and how they are shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from stepbench.contracts.base import near_miss
from stepbench.contracts.dataflow.dag import Dag, Parameter
from stepbench.errors import Problem, without_queries

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepbench.settings import Settings

_CHANGE = "Change it, or leave it out for its default."


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


class Number(NamedTuple):
    """A number within bounds, which are allowed; a whole one may be written as 10.0."""

    least: float
    most: float = math.inf
    whole: bool = False

    def fault(self, name: str, value: Parameter) -> Fault | None:
        """Return what is wrong with a value; true and false are no numbers."""
        is_number = not isinstance(value, (bool, str)) and math.isfinite(value)
        if is_number and self.least <= float(value) <= self.most and (not self.whole or float(value).is_integer()):
            return None
        kind = "a whole number" if self.whole else "a number"
        bounds = f", {self.least:,} or more" if math.isinf(self.most) else f" from {self.least:,} to {self.most:,}"
        remedy = "Write it without quotes." if isinstance(value, str) and _is_number(value) else _CHANGE
        return Fault(name, f"has to be {kind}{bounds}", remedy)


class Choice(NamedTuple):
    """One of a few words."""

    words: tuple[str, ...]

    def fault(self, name: str, value: Parameter) -> Fault | None:
        """Return what is wrong with a value, and which word was probably meant."""
        if value in self.words:
            return None
        expected = " or ".join(f'"{word}"' for word in self.words)
        return Fault(name, f"has to be {expected}", f"{near_miss(value, self.words)}{_CHANGE}")


class Text(NamedTuple):
    """A parameter that takes any text."""

    def fault(self, name: str, value: Parameter) -> Fault | None:
        """Return what is wrong with a value that is none, and how to write it."""
        return None if isinstance(value, str) else Fault(name, "has to be a text", f'Write it in quotes: "{value}".')


Kind: TypeAlias = Number | Choice | Text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def named_sources(dag: Dag) -> Iterator[tuple[str, str]]:
    """Yield the path of each file that the DAG names, below the DAG, and its address."""
    if dag.input is not None and dag.input.source is not None:
        yield "input.source", dag.input.source
    for number, stage in enumerate(dag.stages):
        yield from ((f"stages[{number}].files.{name}", source) for name, source in stage.files.items())


def source_problem(path: str, source: str, settings: Settings) -> Problem | None:
    """
    Return why this stack does not fetch a file; None if it does.

    Of S3 it fetches from its own bucket of files alone: its functions may read the results bucket, too, in which other
    teams' runs are. From the web it fetches where plans may name servers.
    """
    parts = urlsplit(source)
    if parts.scheme == "s3" and parts.netloc != settings.files_bucket:
        message = f"is not in this stack's bucket of files, {settings.files_bucket or 'of which it has none'}"
        return Problem(path, source, message, "Copy it there (output FilesBucketName).")
    if parts.scheme != "s3" and not settings.permits_addresses:
        remedy = (
            "Copy the file into the stack's bucket (output FilesBucketName), or deploy with AllowCustomEndpoints=true."
        )
        return Problem(path, source, "is not permitted on this stack, which connects to no servers of plans", remedy)
    return None


def shown_dags(dags: Iterable[Dag]) -> tuple[Dag, ...]:
    """Return DAGs as results show them: a signed address of a file is a key to it, and another one in each run."""
    return tuple(Dag.model_validate(without_queries(dag.model_dump(mode="json", by_alias=True))) for dag in dags)
