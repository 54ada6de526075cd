"""A function of the user's own, of which a trial measures a copy in place of the stack's receiver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from stepbench.contracts.base import BrokenRule, RuledContract

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

RUNTIMES = r"^(python3\.[0-9]{1,2}|nodejs[0-9]{2}\.x)$"
"""Of Lambda: those for which the measuring layer has a shim, and which an environment on one machine runs."""
ANY_RUNTIME = (
    r"^(python3\.[0-9]{1,2}|nodejs[0-9]{2}\.x|java[0-9]{1,2}(\.al2)?|dotnet[0-9]{1,2}|ruby[0-9]\.[0-9]"
    r"|provided\.al[0-9]{1,4})$"
)
"""Of Lambda: those of functions that are deployed as .zip files."""
MOST_ASYNCHRONOUS_ATTEMPTS = 3
"""Lambda tries an event of an asynchronous invocation again twice at most."""
ASYNCHRONOUS_RETRIES_S = (60, 120)
"""How long Lambda waits before it invokes a function asynchronously for the second and for the third time."""
STREAM_RETRY_S = 2
"""Assumed of a batch that failed: Lambda's documentation names no time."""
MOST_LOGGED_EVENTS = 200_000
"""Of a trial: its log is read page by page, while others of the account may read theirs."""
MOST_TABLED_EVENTS = 500_000
"""Likewise, of one whose lines are in the results table: the stages take each into an item of its own."""
MOST_INVOKE_BYTES, MOST_SYNCHRONOUS_BYTES = 1024 * 1024, 6 * 1024 * 1024
"""Lambda's quotas on the payload of an asynchronous (256 KiB until October 2025) and of a synchronous invocation."""
PAYLOAD_FRAME_BYTES = 400
"""The part of a trigger's payload that is not the row: source, event, time, operation, and the key's own column."""
PLACEHOLDER = "YOUR-FUNCTION"
"""The name that a preset leaves to be filled in."""
PACKAGES = "functions/"
"""What the keys of packages in the results bucket begin with."""
CODE_FIELDS = ("code", "variables_file")
"""What names files on the machine of the command line, which puts the next ones in their place."""
UPLOADED_FIELDS = ("package", "variables_key")
SHIM = "stepbench_measuring"
"""The measuring layer's module; a package of that name of the user's own would be imported in its place."""
MOST_VARIABLES_BYTES = 4_096
"""Lambda's limit on all variables of a function together."""
_PACKAGE = rf"^{PACKAGES}([0-9a-f]{{64}})(?:/([A-Za-z0-9_.-]{{1,40}}))?\.zip$"
"""The archive's SHA-256, and the folder's name."""
_VARIABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]+")
_RESERVED = re.compile(r"AWS_|STEPBENCH_|LAMBDA_|_HANDLER$")
_SECRET = re.compile(r"(PASSWORD|PASSWD|SECRET|TOKEN|CREDENTIALS?|API_?KEY|PRIVATE_?KEY|ACCESS_?KEY)$", re.IGNORECASE)


def package_label(key: str) -> str:
    """Return the name of the folder that a package was made of; "" where the text is no package's key."""
    found = re.fullmatch(_PACKAGE, key)
    return (found[2] or found[1][:8]) if found else ""


def describe_package(key: str) -> str:
    """Return `before (3f2a91c0)`: the folder, and which content it had; "" where the text is no package's key."""
    found = re.fullmatch(_PACKAGE, key)
    return f"{package_label(key)} ({found[1][:8]})" if found else ""


def variable_problems(variables: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, message and remedy of variables that Lambda refuses, or that are the trial's own."""
    for name in variables:
        if not _VARIABLE.fullmatch(name):
            yield name, "is no name of a variable", "Begin with a letter; go on with letters, digits and underscores."
        elif _RESERVED.match(name):
            yield name, "is reserved: Lambda or the trial sets it", "Give it another name."


class MeasuredFunction(RuledContract):
    """
    The function to measure: a folder here, or a function of the account by its name.

    It is never changed. The trial makes a copy of its code and configuration, adds the measuring layer, lets its own
    trigger invoke the copy, and deletes both. The copy does what the original does: it writes and mails as that does.
    """

    APART: ClassVar[bool] = True

    code: str | None = Field(
        default=None,
        min_length=1,
        max_length=1_000,
        description="A folder with the code, on the machine of the command line, which packs and uploads it. No other "
        "way in takes one: it would run code.",
    )
    package: str | None = Field(
        default=None,
        pattern=_PACKAGE,
        description="Where the command line has uploaded `code`: a key in the results bucket, with the archive's "
        "SHA-256 and the folder's name.",
    )
    name: str | None = Field(
        default=None,
        pattern=r"^(arn:[a-z0-9-]+:lambda:[a-z0-9-]+:[0-9]{12}:function:)?[A-Za-z0-9_-]{1,64}(:[A-Za-z0-9_$-]{1,128})?$",
        examples=["orders", "orders:live", "arn:aws:lambda:eu-west-1:000000000000:function:orders"],
        description="Name or ARN of a function of the account, with a version or an alias if wanted. The stack's "
        "parameter MeasuredFunctions has to allow it.",
    )
    handler: str | None = Field(
        default=None, min_length=1, max_length=128, description="Such as `app.handler`; needed with `code`."
    )
    runtime: str | None = Field(
        default=None,
        pattern=ANY_RUNTIME,
        examples=["python3.12", "nodejs22.x"],
        description="Of `code`. Without it, the handler's file says: Python of the stack's version, or Node.js of this "
        "machine's.",
    )
    times: Literal["layer", "own", "platform"] = Field(
        default="layer",
        description="Who says when the handler begins and ends. `layer`: the measuring layer, in Python and Node.js. "
        "`own`: the function, of any runtime, prints the lines of docs/your-function.md. `platform`: Lambda's own log "
        "lines, of any runtime, in whole milliseconds; they name no event, so that only events which are apart have "
        "latencies. The copy gets a layer and a wrapper for `layer` alone.",
    )
    records: Literal["log", "table"] = Field(
        default="log",
        description="Where its lines go once the handler has ended. `log`: into its log. `table`: straight into the "
        "results table, which is read at once, and for which the handler's answer waits some milliseconds.",
    )
    variables: dict[str, str] = Field(
        default={},
        max_length=100,
        description="Environment variables, beside those that the function has. They are stored with the run, so "
        "secrets do not belong here.",
    )
    variables_file: str | None = Field(
        default=None,
        min_length=1,
        max_length=1_000,
        description="A file of further ones (lines NAME=value), on the machine of the command line; with `code` only. "
        "Its values are in no plan, log or report, and are removed when the run is over.",
    )
    variables_key: str | None = Field(
        default=None,
        pattern=rf"^{PACKAGES}[A-Za-z0-9_.-]{{1,40}}\.variables\.json$",
        description="Where the command line has put the values of `variables_file` for as long as the run takes: a key "
        "in the results bucket.",
    )
    memory_mib: int | None = Field(
        default=None, ge=128, le=10_240, description="Of the copy; without it, as the function has. CPU goes with it."
    )
    timeout_s: int | None = Field(default=None, ge=1, le=900, description="Likewise.")
    snap_start: bool = Field(default=False, description="Invoke a published version of the copy, with SnapStart.")
    reserved_concurrency: int | None = Field(default=None, ge=1, le=10_000, description="Of the copy; else none.")
    attempts: int = Field(
        default=3,
        ge=1,
        le=100,
        description="How often an event, or a batch, is handed to it before it is given up. Asynchronous invocations "
        "(S3, PostgreSQL) have 3 at most; Lambda makes the second after a minute, the third after two more. One where "
        "PostgreSQL waits for the answer.",
    )
    max_event_age_s: int = Field(default=3_600, ge=60, le=21_600, description="An older event is given up.")
    bisect: bool = Field(default=False, description="Of streams: halve a batch that fails, so that one event is alone.")

    def _broken_rules(self) -> Iterator[BrokenRule]:
        sources = {name: getattr(self, name) for name in ("code", "package", "name")}
        given = [name for name, value in sources.items() if value is not None]
        if len(given) != 1:
            has = f"has {' and '.join(given)}" if given else "says neither where the code is nor what it is called"
            yield BrokenRule("", has, 'Give one: "code" (a folder, here), or "name" (of a function on AWS).')
        if self.name is None and self.handler is None and given:
            yield BrokenRule("handler", "is missing, and code needs it", 'Give one, such as "app.handler".')
        if self.name is None and self.runtime is not None and not re.match(RUNTIMES, self.runtime):
            message = "is no runtime that an environment on one machine has"
            yield BrokenRule("runtime", message, 'Use Python or Node.js, or deploy the function and give its "name".')
        if self.name is not None:
            for field in ("handler", "runtime"):
                if getattr(self, field) is not None:
                    yield BrokenRule(field, "is the function's own", f'Remove it: the copy has the {field} of "name".')
            for field in ("variables_file", "variables_key"):
                if getattr(self, field) is not None:
                    yield BrokenRule(field, "goes with code alone", "Remove it: the copy has the function's variables.")
        yield from self._table_rules()
        yield from self._variable_rules()

    def _table_rules(self) -> Iterator[BrokenRule]:
        """The layer signs what it puts, with the credentials of the function's variables."""
        found = {
            "times": (self.times != "layer", "the layer has no lines to put there"),
            "snap_start": (self.snap_start, "SnapStart gives a function no credentials in its variables"),
        }
        for field, (broken, reason) in found.items():
            if broken and self.records == "table":
                yield BrokenRule("records", f"does not go with {field}: {reason}", f"Remove it, or {field}.")

    def _variable_rules(self) -> Iterator[BrokenRule]:
        for name, message, remedy in variable_problems(self.variables):
            yield BrokenRule(f"variables.{name}", message, remedy)
        for name in filter(_SECRET.search, self.variables):
            message = "is a secret by its name, and a plan is stored with its run"
            remedy = 'Give "variables_file" the file that has it; on AWS give it to the function itself.'
            yield BrokenRule(f"variables.{name}", message, remedy)
        if sum(len(name) + len(value.encode()) for name, value in self.variables.items()) > MOST_VARIABLES_BYTES:
            message = f"are more than Lambda's {MOST_VARIABLES_BYTES:,} bytes together"
            yield BrokenRule("variables", message, "Shorten them, or have the function read a file.")

    @property
    def described(self) -> str:
        """Return what the report calls it: its name, or its handler."""
        return self.name or self.handler or ""
