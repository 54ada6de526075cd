"""From a plan that names folders to one that names packages: checked, packed, uploaded."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.contracts.function import PACKAGES, describe_package
from stepbench.digits import counted, size
from stepbench.errors import PlanError, Problem, raise_problems
from stepbench.planning import expanded, parse_plan
from stepbench_tools.local.archives import write_archive
from stepbench_tools.local.packing.dependencies import (
    NODE_MODULES,
    dependencies,
    keep_newest,
    node_runtime,
    requires_npm,
)
from stepbench_tools.local.packing.folder import list_files, refusal, require_no_clash, require_size
from stepbench_tools.local.packing.handlers import find_handler
from stepbench_tools.local.packing.slots import (
    CODE,
    FUNCTION,
    LOCAL_FIELDS,
    VARIABLES_FILE,
    objects_at,
    replace_paths,
)
from stepbench_tools.local.packing.variables import read_variables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from stepbench.contracts.function import MeasuredFunction
    from stepbench.contracts.plan import Plan
    from stepbench.planning.expansion import Expanded
    from stepbench_tools.local.packing.dependencies import Workshop
    from stepbench_tools.local.packing.handlers import Language
    from stepbench_tools.local.stack import Stack

_FOREIGN = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_LABEL = 40


class Code(NamedTuple):
    """A folder's code, checked: the trial that names it, its files, and the language of its handlers."""

    trial: Expanded
    folder: Path
    files: dict[str, Path]
    language: Language

    def __str__(self) -> str:
        """Return `./app: 3 files, 12 kB, python`."""
        held = sum(path.stat().st_size for path in self.files.values())
        return f"{self.folder}: {counted(len(self.files), 'file')}, {size(held)}, {self.language}"


class Packed(NamedTuple):
    """Plans without paths of this machine; the archives, and the values of variables, that their keys name."""

    plans: tuple[Plan, ...]
    archives: dict[str, Path]
    variables: dict[str, dict[str, str]]


def local_functions(plan: Plan) -> Iterator[tuple[Expanded, MeasuredFunction]]:
    """Yield the functions of a plan that name files of this machine, with their trials."""
    for trial in expanded(plan):
        function = trial.plan.target.function
        if function is not None and any(getattr(function, field) for field in LOCAL_FIELDS):
            yield trial, function


def check_codes(*plans: Plan) -> dict[str, Code]:
    """
    Return the code of all functions of plans, by path, without executing or installing anything.

    Raises:
        PlanError: with every function that could not be packed, or not be called.
    """
    functions = [each for plan in plans for each in local_functions(plan)]
    files = dict.fromkeys(function.variables_file for _, function in functions if function.variables_file)
    secrets = frozenset(Path(file).resolve() for file in files)
    found: dict[str, Code] = {}
    seen: set[tuple[str | None, ...]] = set()
    problems = []
    for trial, function in functions:
        named = (function.code, function.handler, function.runtime, function.variables_file)
        if named in seen:
            continue
        seen.add(named)
        try:
            if function.code is not None:
                code = _check(trial, Path(function.code), function, secrets)
                if found.setdefault(function.code, code).language != code.language:
                    raise refusal(function.code, "has handlers of two languages", "Give each a folder of its own.")
            if function.variables_file is not None:
                read_variables(Path(function.variables_file))
        except PlanError as error:
            problems += _placed(trial, error)
    raise_problems(problems)
    return found


def _check(trial: Expanded, folder: Path, function: MeasuredFunction, secrets: frozenset[Path]) -> Code:
    files = list_files(folder, frozenset({NODE_MODULES}), secrets)
    handler = find_handler(folder, files, function.handler or "", function.runtime)
    if handler.language == "nodejs" and not requires_npm(folder):
        files = list_files(folder, secrets=secrets)
    require_no_clash(files)
    return Code(trial, folder, files, handler.language)


def _placed(trial: Expanded, error: PlanError) -> list[Problem]:
    """Return problems of a trial's function by their paths in the plan, those that a matrix leads to included."""
    found = []
    for each in error.problems:
        path = f"{FUNCTION}.{each.path}"
        found.append(each._replace(path=f"trials[{trial.source}].{'matrix.' if path in trial.point else ''}{path}"))
    return found


def refuse_local_files(plan: Plan) -> None:
    """Raise PlanError where a plan for a deployed stack names files of this machine."""
    remedy = 'Deploy the function, and give its "name"; the stack\'s parameter MeasuredFunctions has to allow it.'
    problems = [
        problem
        for trial, function in local_functions(plan)
        for field in LOCAL_FIELDS
        if (value := getattr(function, field))
        for problem in _placed(trial, refusal(value, "is packed for a run on this machine alone", remedy, field))
    ]
    raise_problems(problems)


def pack_plans(plans: Sequence[Plan], workshop: Workshop) -> Packed:
    """
    Return plans whose functions are packed; one without any as it is.

    Raises:
        PlanError: as `check_codes`; or a requirement has no wheel, or a package is too large.
        LocalEnvironmentError: a registry does not answer, or an installer is missing.
    """
    codes = check_codes(*plans)
    archives = {path: _pack(code, workshop) for path, code in codes.items()}
    if archives:
        keep_newest(_archives(workshop), archives.values())
    labels = distinct_labels(archives)
    packages = {path: f"{PACKAGES}{archive.stem}/{labels[path]}.zip" for path, archive in archives.items()}
    functions = (function for plan in plans for _, function in local_functions(plan))
    files = dict.fromkeys(each.variables_file for each in functions if each.variables_file)
    values = {path: f"{PACKAGES}{label}.variables.json" for path, label in distinct_labels(files).items()}
    keys = {CODE: packages, VARIABLES_FILE: values}
    return Packed(
        tuple(_rewritten(plan, codes, keys) for plan in plans),
        {packages[path]: archive for path, archive in archives.items()},
        {key: read_variables(Path(path)) for path, key in values.items()},
    )


def _rewritten(plan: Plan, codes: Mapping[str, Code], keys: Mapping[str, Mapping[str, str]]) -> Plan:
    if next(local_functions(plan), None) is None:
        return plan
    document = plan.model_dump(mode="json", exclude_none=True)
    _name_runtime(document, codes)
    replace_paths(document, keys)
    return parse_plan(document)


def _name_runtime(document: dict[str, Any], codes: Mapping[str, Code]) -> None:
    """Write the runtime of functions in Node.js that do not name it: without one, it would be Python's."""
    for index, trial in enumerate(document["trials"]):
        matrix = trial.get("matrix") or {}
        listed = matrix.get(f"{FUNCTION}.{CODE}", ())  # in place of each function's own
        for function in objects_at(trial, FUNCTION):
            if function.get("runtime") or not function.get(CODE):
                continue
            languages = {codes[path].language for path in listed or [function[CODE]] if path in codes}
            if len(languages) > 1 and f"{FUNCTION}.runtime" not in matrix:
                at = f"trials[{index}].{FUNCTION}.runtime"
                message = "has to be given where code is of two languages"
                raise refusal(None, message, f'Vary "{FUNCTION}" as a whole, or give each language a trial.', at)
            if languages == {"nodejs"}:
                function["runtime"] = node_runtime()


def distinct_labels(paths: Iterable[str]) -> dict[str, str]:
    """Return a short name for each path: its last part, with those above it where others have the same."""
    listed = list(paths)
    for depth in range(1, 1 + max((len(Path(path).parts) for path in listed), default=0)):
        labels = [_label(Path(path).parts[-depth:]) for path in listed]
        if len(set(labels)) == len(labels):
            return dict(zip(listed, labels, strict=True))
    return {path: f"{_label(Path(path).parts[-1:])[: _LONGEST_LABEL - 4]}-{n}" for n, path in enumerate(listed, 1)}


def _label(parts: Sequence[str]) -> str:
    return _FOREIGN.sub("-", "-".join(parts)).strip("-.")[:_LONGEST_LABEL].strip("-.") or "code"


def _pack(code: Code, workshop: Workshop) -> Path:
    """Return the archive of a function with what it requires, named by its SHA-256: equal files are equal bytes."""
    try:
        files = {**dependencies(code.folder, code.language, workshop), **code.files}
        require_no_clash(files)
        require_size(code.folder, sum(path.stat().st_size for path in files.values()))
        return _archive(code, files, workshop)
    except PlanError as error:
        raise PlanError(_placed(code.trial, error)) from error


def _archives(workshop: Workshop) -> Path:
    return workshop.cache / "archives"


def _archive(code: Code, files: Mapping[str, Path], workshop: Workshop) -> Path:
    folder = _archives(workshop)
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(".partial", dir=folder)  # two commands may pack one folder at a time
    os.close(handle)
    partial = Path(name)
    try:
        write_archive(files, partial)
        with partial.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return partial.rename(folder / f"{digest}.zip")
    except OSError as error:
        raise refusal(error.filename or code.folder, f"cannot be read: {error.strerror}", "Mend the file.") from error
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def uploaded(packed: Packed, stack: Stack, notify: Callable[[str], None]) -> Iterator[None]:
    """
    Have what the keys of plans name in the results bucket meanwhile.

    An archive that is there already stays as it is, also afterwards; values of variables are removed at the end.
    """
    from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 -- checks do without

    for key, archive in packed.archives.items():
        if next(stack.runs.keys(key), None) is None:
            notify(f"uploading {describe_package(key)}, {size(archive.stat().st_size)}")
            stack.runs.put_file(key, archive)
    try:
        for key, values in packed.variables.items():
            stack.runs.put_bytes(key, json.dumps(values).encode(), "application/json")
        yield
    finally:
        with contextlib.suppress(BotoCoreError, ClientError):  # the emulator may be gone, and they with it
            for key in packed.variables:
                stack.aws("s3").delete_object(Bucket=stack.runs.bucket, Key=key)
