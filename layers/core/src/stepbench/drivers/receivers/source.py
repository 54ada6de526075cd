"""
The function that a copy is made of: whether it can be copied, and what its copy is to be. Pure.

Source:
    AWS Lambda's API reference, GetFunction and CreateFunction; AWS Lambda's developer guide, "Modifying the runtime
    environment" (wrapper scripts) and "Adding layers to functions" (five at most).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from stepbench.contracts.function import MOST_VARIABLES_BYTES, RUNTIMES
from stepbench.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stepbench.contracts.function import MeasuredFunction

COPIES = "functions/copies/"
"""What the keys of copied code in the results bucket begin with; they go with the copy."""
MOST_LAYERS = 5
WRAPPER = "AWS_LAMBDA_EXEC_WRAPPER"
WRAPPER_PATH = "/opt/stepbench-measure"
TRIAL_TAG = "stepbench:trial"
"""Name of the tag that a copy has, with the trial's tag as its value."""
_OWN_VARIABLES = ("STEPBENCH_TRIAL", "STEPBENCH_IDENTITY", "STEPBENCH_RESULTS_TABLE")
_COPIED = ("Role", "Handler", "Runtime", "Timeout", "MemorySize", "Architectures", "EphemeralStorage", "KMSKeyArn")
"""What a copy has as it is; the rest is asked for in another form than it is shown in."""
_OTHER_RUNTIMES = (
    'Give times: "own" if the function prints the lines of docs/your-function.md itself, or times: "platform" for '
    "Lambda's own log lines, in whole milliseconds."
)
DEFAULT_TIMEOUT_S, DEFAULT_MEMORY_MIB = 60, 1_024
"""Of a package, for which the plan names none."""


def copy_name(tag: str, function_prefix: str) -> str:
    """Return the name of a trial's copy; its log group is that of any function of this name."""
    return f"{function_prefix}-measured-{tag}"


MISSING = "is no function of this account and region", "Give the name or the ARN of one that is."
"""What is wrong with a name that names nothing, and the way out."""


def named_version(name: str) -> dict[str, str]:
    """Return the parameters that name a function in calls of Lambda's, of a name or ARN with a version or without."""
    if name.count(":") in {1, 7}:
        name, _, version = name.rpartition(":")
        return {"FunctionName": name, "Qualifier": version}
    return {"FunctionName": name}


def source_problems(
    at: str, configuration: Mapping[str, Any], wanted: MeasuredFunction, added: Mapping[str, str]
) -> Iterator[Problem]:
    """
    Yield why a function, or a package, cannot be copied and measured.

    Args:
        at: path of `target.function` in the plan.
        configuration: as GetFunctionConfiguration shows it.
        wanted: `target.function`; what is in the layer's way matters where the layer is to measure.
        added: variables of the trial, for what prints the times.
    """
    name = str(configuration.get("FunctionName", ""))
    environment = configuration.get("Environment") or {}
    variables = environment.get("Variables", {})
    layers = configuration.get("Layers", ())
    with_layer = wanted.times == "layer"
    found: list[tuple[bool, str, str]] = [
        (
            configuration.get("PackageType", "Zip") != "Zip",
            "is a container image, of which no copy is made",
            "Measure a version of it that is deployed as a .zip file.",
        ),
        (
            with_layer
            and configuration.get("PackageType", "Zip") == "Zip"
            and not re.match(RUNTIMES, str(configuration.get("Runtime", ""))),
            f"has the runtime {configuration.get('Runtime')}, for which the measuring layer has no shim",
            _OTHER_RUNTIMES,
        ),
        (
            "Error" in environment,
            "has variables that are encrypted with a key which the stack may not use",
            "Allow the role of the stack's PrepareTarget to decrypt with it, or measure a version without such a key.",
        ),
        (
            with_layer and len(layers) >= MOST_LAYERS,
            f"has {len(layers)} layers, and with the measuring layer it would have more than {MOST_LAYERS}",
            "Merge two of its layers.",
        ),
        (
            with_layer and WRAPPER in variables,
            f"has a wrapper already ({WRAPPER})",
            "Measure a version without it: two wrappers would each replace the handler.",
        ),
        (
            any(own in variables for own in _OWN_VARIABLES),
            f"has variables whose names the measuring layer needs: {', '.join(_OWN_VARIABLES)}",
            "Measure the original, not a copy of it.",
        ),
        (
            (size := _measured_bytes(_copy_variables(configuration, wanted, added))) > MOST_VARIABLES_BYTES,
            f"has variables which in its copy come to {size:,} bytes, as JSON: Lambda takes {MOST_VARIABLES_BYTES:,}",
            "Shorten them, or have the function read some of them elsewhere.",
        ),
    ]
    for broken, message, remedy in found:
        if broken:
            field = "name" if wanted.name else "variables"
            yield Problem(path=f"{at}.{field}", value=repr(name), message=message, remedy=remedy)


def _copy_variables(
    configuration: Mapping[str, Any], wanted: MeasuredFunction, added: Mapping[str, str]
) -> dict[str, str]:
    own = (configuration.get("Environment") or {}).get("Variables", {})
    return {**own, **wanted.variables, **added, **({WRAPPER: WRAPPER_PATH} if wanted.times == "layer" else {})}


def _measured_bytes(variables: Mapping[str, str]) -> int:
    """Return what Lambda's limit is about: a refusal shows the text that it has measured, which is JSON."""
    return len(json.dumps(variables, ensure_ascii=False, separators=(",", ":")).encode())


def copy_request(
    configuration: Mapping[str, Any], wanted: MeasuredFunction, layer_arn: str, variables: Mapping[str, str]
) -> dict[str, Any]:
    """
    Return CreateFunction's arguments for a copy, but for its name, its code and its log group.

    Args:
        configuration: of the function, as GetFunctionConfiguration shows it.
        wanted: what the plan wants otherwise.
        layer_arn: of the measuring layer, which comes last where it is to measure.
        variables: of the trial, for what prints the times.
    """
    request = {name: configuration[name] for name in _COPIED if configuration.get(name)}
    layers = [layer["Arn"] for layer in configuration.get("Layers", ())]
    request |= {
        "Environment": {"Variables": _copy_variables(configuration, wanted, variables)},
        "Layers": [*layers, *([layer_arn] if wanted.times == "layer" else [])],
        "Description": f"Copy of {configuration.get('FunctionName', 'a package')}, made by Stepbench for one trial",
    }
    if systems := configuration.get("FileSystemConfigs"):
        request["FileSystemConfigs"] = systems
    if (vpc := configuration.get("VpcConfig")) and vpc.get("SubnetIds"):
        names = ("SubnetIds", "SecurityGroupIds", "Ipv6AllowedForDualStack")
        request["VpcConfig"] = {name: vpc[name] for name in names if name in vpc}
    if mode := (configuration.get("TracingConfig") or {}).get("Mode"):
        request["TracingConfig"] = {"Mode": mode}
    if wanted.memory_mib is not None:
        request["MemorySize"] = wanted.memory_mib
    if wanted.timeout_s is not None:
        request["Timeout"] = wanted.timeout_s
    if wanted.snap_start:
        request["SnapStart"] = {"ApplyOn": "PublishedVersions"}
    return request


def logging_config(wanted: MeasuredFunction, log_group: str) -> dict[str, str]:
    """Return how a copy logs; Lambda's own lines have times of their own as JSON alone, from the level INFO on."""
    if wanted.times == "platform":
        return {"LogFormat": "JSON", "SystemLogLevel": "INFO", "LogGroup": log_group}
    return {"LogFormat": "Text", "LogGroup": log_group}


def needed_rights(
    store: str, log_group: str, table: str, failures: Iterable[str], results: str = ""
) -> dict[str, tuple[str, ...]]:
    """
    Return what the role of a copy has to be allowed, actions by resource.

    Lambda writes logs, polls streams, and reports what it gives up, with the role of the function; it refuses a
    mapping or a queue where that may not.

    Args:
        store: whose trigger invokes it.
        log_group: ARN of the copy's.
        table: ARN of the trial's table, of which DynamoDB's stream is.
        failures: ARNs of the queues for what is given up; "" is none.
        results: ARN of the results table, if the layer puts its lines there.
    """
    rights: dict[str, tuple[str, ...]] = {f"{log_group}:log-stream:any": ("logs:CreateLogStream", "logs:PutLogEvents")}
    rights |= dict.fromkeys(filter(None, failures), ("sqs:SendMessage",))
    rights |= dict.fromkeys(filter(None, (results,)), ("dynamodb:PutItem",))
    if store == "dynamodb":
        polling = ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator")
        rights |= {f"{table}/stream/any": polling, "*": ("dynamodb:ListStreams",)}
    return rights


def package_configuration(wanted: MeasuredFunction, runtime: str, role_arn: str) -> dict[str, Any]:
    """Return the configuration of a package, as if it were a function's."""
    return {
        "FunctionName": wanted.described,
        "Handler": wanted.handler,
        "Runtime": wanted.runtime or runtime,
        "Role": role_arn,
        "Timeout": wanted.timeout_s or DEFAULT_TIMEOUT_S,
        "MemorySize": wanted.memory_mib or DEFAULT_MEMORY_MIB,
    }
