"""What a task of an application is given and gives, and where a task or a maker is found by its name."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from stepbench.experiments.dataflow.tasks.application_parameters import Fault, Given

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from stepbench.contracts.dataflow.dag import Parameter
    from stepbench.experiments.dataflow.tasks.application_parameters import Kind

Value: TypeAlias = Any
"""A numpy array, bytes, str, a number, a bool, None, or a list of these or a dict by text: what `codec` can encode."""
APPLICATIONS = "stepbench.experiments.dataflow.tasks.applications"


class ApplicationError(Exception):
    """An application says what is wrong with its input or its parameters; the text is the row's `error`."""


class TaskCall(NamedTuple):
    """
    What one task of a stage is given.

    inputs: by the producing stage its values, in the order of the producing tasks; bytes are read-only memoryviews,
    and arrays read-only. dag_input: of a stage without inputs, if the DAG has one. task: which one of `tasks`. parts:
    how many values each consuming stage wants of it. seed: the DAG's, the same for all its tasks and executions. files:
    the stage's, by the name that the plan gives them.
    """

    inputs: Mapping[str, Sequence[Value]]
    dag_input: bytes | None
    parameters: Mapping[str, Parameter]
    stage: str
    task: int
    tasks: int
    parts: Mapping[str, int]
    seed: int
    files: Mapping[str, bytes] = {}

    def number(self, name: str, default: float) -> float:
        """
        Return a parameter that is a number.

        Raises:
            ApplicationError: it is something else.
        """
        return number_of(self.parameters, name, default)

    def own_input(self, task: str, *, maker: str) -> bytes:
        """
        Return the DAG's input, which the task of this name reads.

        Raises:
            ApplicationError: there is none; the message names a maker of such.
        """
        if self.dag_input is None:
            message = f"{task} reads the DAG's input, and the DAG has none: give it one, made by {maker}"
            raise ApplicationError(message)
        return self.dag_input

    def only_input(self) -> Value:
        """
        Return the one value that the task reads.

        Raises:
            ApplicationError: there is none, or there are several.
        """
        values = [value for of_stage in self.inputs.values() for value in of_stage]
        if len(values) != 1:
            message = f"the task wants one input, and its stage's edges give it {len(values)}"
            raise ApplicationError(message)
        return values[0]

    def answer(self, value: Value, result: Value = None) -> TaskAnswer:
        """Return an answer that gives everybody the same value."""
        return TaskAnswer({consumer: [value] * parts for consumer, parts in self.parts.items()}, result)


class TaskAnswer(NamedTuple):
    """What it gives: by the consuming stage as many values as it wants, and, as JSON, what it has found out."""

    outputs: Mapping[str, Sequence[Value]] = {}
    result: Value = None


if TYPE_CHECKING:
    TaskFunction: TypeAlias = Callable[[TaskCall], TaskAnswer]
    MakerFunction: TypeAlias = Callable[[Mapping[str, Parameter], int], bytes]
    """From parameters and a seed to the bytes of a DAG's input: always the same."""


def number_of(parameters: Mapping[str, Parameter], name: str, default: float) -> float:
    """
    Return a parameter that is a number.

    Raises:
        ApplicationError: it is something else.
    """
    value = parameters.get(name, default)
    if isinstance(value, str):
        message = f"parameter {name} is the text {value!r}, and has to be a number"
        raise ApplicationError(message)
    return value


def find_task(name: str) -> TaskFunction:
    """
    Return the function of a task, `<application>.<task>`, which looks at its parameters first.

    Raises:
        ApplicationError: there is none of that name.
    """
    function: TaskFunction = _find(name, "TASKS")

    def run(call: TaskCall) -> TaskAnswer:
        _refuse_faults(name, Given(call.parameters, bool(call.inputs) or call.dag_input is not None))
        return function(call)

    return run


def find_maker(name: str) -> MakerFunction:
    """
    Return the function that makes a DAG's input, `<application>.<maker>`, which looks at its parameters first.

    Raises:
        ApplicationError: there is none of that name.
    """
    function: MakerFunction = _find(name, "MAKERS")

    def make(parameters: Mapping[str, Parameter], seed: int) -> bytes:
        _refuse_faults(name, Given(parameters))
        return function(parameters, seed)

    return make


def parameters_of(name: str) -> frozenset[str] | None:
    """Return the parameters that a task or a maker knows; None where its application does not say."""
    application, _, own = name.partition(".")
    known = getattr(_application(application), "PARAMETERS", {}).get(own)
    return None if known is None else frozenset(known)


def faults_of(name: str, given: Given) -> list[Fault]:
    """Return what is wrong with the values that a task or a maker is given, as far as its application says."""
    application, _, own = name.partition(".")
    module = _application(application)
    kinds, check = getattr(module, "PARAMETERS", {}).get(own), getattr(module, "CHECKS", {}).get(own)
    # An application may list the names of its parameters alone.
    known: Mapping[str, Kind] = kinds if isinstance(kinds, dict) else {}
    faults = [
        fault
        for name, value in given.parameters.items()
        if (kind := known.get(name)) is not None and (fault := kind.fault(name, value))
    ]
    return faults if faults or check is None else list(check(given))


def preload(application: str) -> None:
    """
    Import what the application's tasks need: in the init phase, as a function of its own would.

    What cannot be imported is left to the first task, whose row reports it; a sandbox that does not start has none.
    """
    with suppress(ImportError, OSError):
        for library in getattr(_application(application), "LIBRARIES", ()):
            import_module(library)


def _refuse_faults(name: str, given: Given) -> None:
    faults = faults_of(name, given)
    if faults:
        messages = [f"parameter {each.name} is {given.parameters[each.name]!r}, and {each.message}" for each in faults]
        raise ApplicationError("; ".join(messages))


def _find(name: str, table: str) -> Any:  # noqa: ANN401 -- a task's function or a maker's
    application, _, own = name.partition(".")
    known = getattr(_application(application), table, {})
    if own not in known:
        offered = ", ".join(f"{application}.{each}" for each in known) or "none"
        message = f"there is no {name} among the {table.lower()} of {application}; it has {offered}"
        raise ApplicationError(message)
    return known[own]


def _application(name: str) -> ModuleType:
    module = f"{APPLICATIONS}.{name}"
    if find_spec(module) is None:
        folder = import_module(APPLICATIONS)
        offered = ", ".join(sorted(each.name for each in iter_modules(folder.__path__)))
        message = f"there is no application {name}: no module {module}; there are {offered}"
        raise ApplicationError(message)
    return import_module(module)
