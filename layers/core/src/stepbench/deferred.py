"""What is named by a text and imported when it is asked for, so that no function waits for the libraries of another."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

Part_co = TypeVar("Part_co", covariant=True)


def load(reference: str) -> Any:  # noqa: ANN401 -- whatever it names
    """Return what "module:name" names: a function or class of the module, or a module of the package."""
    where, _, name = reference.partition(":")
    found = getattr(import_module(where), name, None)
    return import_module(f"{where}.{name}") if found is None else found


def deferred(reference: str) -> Callable[..., Any]:
    """Return the function or class of this name; its module, and its libraries, are imported when it is called."""

    def call(*given: object) -> Any:  # noqa: ANN401 -- whatever it returns
        return load(reference)(*given)

    return call


class Deferred(Generic[Part_co]):
    """An attribute of a class that is what a text names, as `load` takes it."""

    def __init__(self, reference: str) -> None:
        self._reference = reference

    def __get__(self, instance: object, owner: type | None = None) -> Part_co:
        """Return it."""
        return cast("Part_co", load(self._reference))
