"""The state machines as the tests look at them: parsed, flattened, and running on an emulator with fake functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MACHINES = ("benchmark", "trial", "dataflow")
LAMBDA_INVOKE = "arn:${Partition}:states:::lambda:invoke"


@dataclass(frozen=True)
class State:
    """One state. `scope` names the states around it, outermost first; `siblings` are the names it may go to."""

    name: str
    definition: dict[str, Any]
    scope: tuple[str, ...]
    siblings: frozenset[str]

    @property
    def type(self) -> str:
        """Return Task, Map and so on."""
        return str(self.definition["Type"])

    def calls_a_function(self) -> bool:
        """Tell whether a state is a Task that invokes a Lambda function."""
        return str(self.definition.get("Resource")).removesuffix(".waitForTaskToken") == LAMBDA_INVOKE

    @property
    def function(self) -> str:
        """Return which function it invokes, `RunWriter`: not every state is named after its own."""
        return str(self.definition["Parameters"]["FunctionName"]).removeprefix("${").removesuffix("FunctionArn}")

    def next_states(self) -> list[str]:
        """Return where a state may go, by success, choice and catch."""
        found = [self.definition[key] for key in ("Next", "Default") if key in self.definition]
        found += [rule["Next"] for rule in (*self.definition.get("Choices", ()), *self.definition.get("Catch", ()))]
        return found


@dataclass(frozen=True)
class Machine:
    """One state machine, flattened."""

    name: str
    definition: dict[str, Any]
    states: tuple[State, ...]

    def __getitem__(self, name: str) -> State:
        """Return the state of that name."""
        return next(state for state in self.states if state.name == name)

    def tasks(self) -> list[State]:
        """Return the states that invoke a Lambda function."""
        return [state for state in self.states if state.calls_a_function()]

    def scopes(self) -> dict[tuple[str, ...], dict[str, Any]]:
        """Return each sub-machine (`StartAt`, `States`) by its scope."""
        return dict(_scopes(self.definition, ()))


def _scopes(machine: dict[str, Any], scope: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    yield scope, machine
    for name, state in machine["States"].items():
        for index, branch in enumerate(state.get("Branches", ())):
            yield from _scopes(branch, (*scope, name, str(index)))
        if "ItemProcessor" in state:
            yield from _scopes(state["ItemProcessor"], (*scope, name))


def substituted(definition: str, partition: str = "aws") -> str:
    """Return a machine's text as it is deployed to a partition: what is substituted beside that is a function."""
    function = f"arn:{partition}:lambda:us-east-1:000000000000:function:any"
    return re.sub(r"\$\{(\w+)\}", lambda found: partition if found[1] == "Partition" else function, definition)


def load_machine(name: str) -> Machine:
    """Read and flatten one of `statemachines/`."""
    definition = json.loads((ROOT / "statemachines" / f"{name}.asl.json").read_text())
    states = tuple(
        State(state, body, scope, frozenset(machine["States"]))
        for scope, machine in _scopes(definition, ())
        for state, body in machine["States"].items()
    )
    return Machine(name, definition, states)


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> Machine:
    """Return each of the machines in turn."""
    return load_machine(request.param)


@pytest.fixture
def trial() -> Machine:
    """Return the trial machine."""
    return load_machine("trial")


@pytest.fixture
def dataflow() -> Machine:
    """Return the machine that runs DAGs."""
    return load_machine("dataflow")


@pytest.fixture
def benchmark_machine() -> Machine:
    """Return the benchmark machine (`benchmark` alone would be a fixture of pytest-benchmark's)."""
    return load_machine("benchmark")
