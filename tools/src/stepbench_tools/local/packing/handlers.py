"""The handler of a folder's files, found and checked by reading alone: whose code it is, nobody knows yet."""

from __future__ import annotations

import ast
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, NamedTuple

from stepbench.contracts.base import alternatives
from stepbench_tools.local.packing.folder import refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Language = Literal["python", "nodejs"]
HANDLER = "handler"
_SUFFIXES: dict[Language, tuple[str, ...]] = {
    "python": (".py", "/__init__.py"),
    "nodejs": (".js", ".mjs", ".cjs"),
}
_USUAL = re.compile(r"(lambda_?)?handler", re.IGNORECASE)
_NOT_HANDLERS = re.compile(r"(^|/)(tests?|node_modules|conftest\.py|test_[^/]*|[^/]*\.(test|spec)\.[cm]?js)(/|$)")
_EXPORT = re.compile(
    r"exports\.(\w+)\s*=|export\s+(?:const|let|var|(?:async\s+)?function)\s+(\w+)|module\.exports\s*=\s*\{\s*(\w+)"
)
_MOST_BYTES = 2**20
"""A larger file is a bundle, in which nobody writes a handler by hand; it is searched for the name alone."""
_NAMED = 5


class Handler(NamedTuple):
    """A handler that stands in a file: `name` as Lambda takes it."""

    name: str
    file: str
    language: Language


def find_handler(folder: Path, files: Mapping[str, Path], name: str, runtime: str | None) -> Handler:
    """
    Return the handler of a name.

    Args:
        folder: with the code, for messages.
        files: what is packed of it.
        name: such as `app.handler`, or `src/app.handler`.
        runtime: Lambda's name of it; None where the file decides.

    Raises:
        PlanError: its file or its function is not there, or Lambda could not call it.
    """
    languages = tuple(each for each in _SUFFIXES if runtime is None or runtime.startswith(each))
    tried = [(language, file) for language in languages for file in _candidates(name, language)]
    language, file = next(((language, file) for language, file in tried if file in files), ("python", ""))
    if not file:
        there = ", ".join(file for _, file in tried) or "no file"
        raise refusal(name, f"names what is not in {folder}: {there}", _suggestion(files, languages), HANDLER)
    function = name.rpartition(".")[2]
    text = _read(files[file], file)
    if language == "python":
        _check_python(text, file, function, name)
    elif not re.search(rf"(?<![\w$]){re.escape(function)}(?![\w$])", text):
        remedy = f'Export it: exports.{function} = async (event) => {{ ... }}, or "export const {function}".'
        raise refusal(name, f"is not exported by {file}", remedy, HANDLER)
    return Handler(name, file, language)


def _candidates(name: str, language: Language) -> Iterator[str]:
    """Yield the files in which Lambda's runtime looks for a handler, in its order."""
    if language == "python":
        module, dot, _ = name.rpartition(".")
        stem = module.replace(".", "/")
    else:  # the first dot of the file's name ends it
        above, slash, last = name.rpartition("/")
        module, dot, _ = last.partition(".")
        stem = f"{above}{slash}{module}"
    if dot and module and ".." not in name.split("/"):
        yield from (f"{stem.removeprefix('./')}{suffix}" for suffix in _SUFFIXES[language])


def _read(path: Path, name: str) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise refusal(path, f"cannot be read as text: {error}", f"Save {name} as UTF-8.") from error


def _check_python(text: str, file: str, function: str, name: str) -> None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        raise refusal(name, f"stands in {file}, which is no Python{line}: {error}", "Mend it.", HANDLER) from error
    found = dict(_top_level(tree.body))
    if isinstance(found.get(function), ast.AsyncFunctionDef):
        remedy = "Have a plain function call it: asyncio.run(main(event))."
        raise refusal(name, "is an async function, which Lambda's Python does not call", remedy, HANDLER)
    if function not in found and "*" not in found:
        functions = [each for each, node in found.items() if isinstance(node, ast.FunctionDef)]
        remedy = f"It defines {alternatives(functions[:_NAMED])}." if functions else "Define it at the top level."
        raise refusal(name, f"is not defined by {file}", remedy, HANDLER)


def _top_level(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the names that a module has once it is imported; `*` where only importing shows them."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node
            case ast.Import() | ast.ImportFrom():
                yield from (((alias.asname or alias.name).partition(".")[0], node) for alias in node.names)
            case ast.Assign() | ast.AnnAssign():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                inner = (each for target in targets for each in ast.walk(target))
                yield from ((each.id, node) for each in inner if isinstance(each, ast.Name))
            case ast.If() | ast.Try() | ast.With():
                parts = (getattr(node, part, []) for part in ("body", "orelse", "finalbody"))
                yield from (each for part in parts for each in _top_level(part))
                for handler in getattr(node, "handlers", []):
                    yield from _top_level(handler.body)


def likely_handlers(files: Mapping[str, Path]) -> tuple[Handler, ...]:
    """Return what looks like a handler, the likeliest first: by its name, and how near it is to the top."""
    found = [
        handler for name, path in files.items() if not _NOT_HANDLERS.search(name) for handler in _in_file(name, path)
    ]
    return tuple(sorted(found, key=lambda each: (each.file.count("/"), not _is_usual(each), each.name)))


def _is_usual(handler: Handler) -> bool:
    return PurePosixPath(handler.file).stem in {"app", "index", "main", "handler", "lambda_function"}


def _in_file(name: str, path: Path) -> Iterator[Handler]:
    language: Language = "python" if name.endswith(".py") else "nodejs"
    suffix = next((each for each in reversed(_SUFFIXES[language]) if name.endswith(each)), "")
    if not suffix or path.stat().st_size > _MOST_BYTES:
        return
    try:
        text = path.read_text("utf-8")
        if language == "python":
            nodes = _top_level(ast.parse(text).body)
            functions = [each for each, node in nodes if isinstance(node, ast.FunctionDef) and _takes_event(node)]
        else:
            functions = [each for groups in _EXPORT.findall(text) for each in groups if each]
    except (OSError, ValueError, SyntaxError):
        return
    stem = name.removesuffix(suffix)
    module = stem.replace("/", ".") if language == "python" else stem
    for function in dict.fromkeys(functions):
        if _USUAL.fullmatch(function) or language == "python":
            yield Handler(f"{module}.{function}", name, language)


def _takes_event(node: ast.FunctionDef) -> bool:
    arguments = [each.arg.lstrip("_") for each in node.args.args]
    return bool(_USUAL.fullmatch(node.name)) or arguments[:2] == ["event", "context"]


def _suggestion(files: Mapping[str, Path], languages: Iterable[Language]) -> str:
    likely = [each.name for each in likely_handlers(files) if each.language in languages]
    if likely:
        return f"There is {alternatives(likely[:_NAMED])}."
    if any(name.endswith((".ts", ".tsx")) for name in files):
        return "Compile TypeScript first, and name the folder of the JavaScript."
    return 'Write FILE.FUNCTION, such as "app.handler" for the function `handler` of app.py.'
