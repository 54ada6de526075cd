"""
Copies of measured functions that no trial holds any more, found by their names and removed.

A trial's own tear-down removes its copy. This is for what that could not know of: a copy that Lambda still made while
its maker was cut off, or whose lease somebody has deleted.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.drivers.receivers.source import COPIES, TRIAL_TAG, copy_name
from stepbench.observability import logger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.services import Services

YOUNG = timedelta(minutes=15)
"""A younger copy may be one that `PrepareTarget` is just making."""


def remove_orphaned_copies(services: Services) -> tuple[str, ...]:
    """Remove copies that no lease accounts for, and logs and code that no copy has; return the names of the copies."""
    removed, held = [], _held(services)
    try:
        functions, logged, kept = dict(_functions(services)), {*_logged(services)}, {*_kept(services)}
    except (ClientError, BotoCoreError):
        logger.exception("copies of measured functions could not be looked for")
        return ()
    held |= _held(services)  # once more: a trial may have begun meanwhile, and made what was found
    for tag in functions.keys() - held:
        with _logged_failures(tag):
            if _is_copy(tag, functions[tag], services):
                _remove_function(tag, services)
                removed.append(copy_name(tag, services.settings.function_prefix))
    for tag in logged - held - functions.keys():
        with _logged_failures(tag):
            _remove_log(tag, services)
    for tag in kept - held - functions.keys():
        with _logged_failures(tag):
            services.aws("s3").delete_object(Bucket=services.settings.results_bucket, Key=f"{COPIES}{tag}.zip")
    return tuple(removed)


def _held(services: Services) -> set[str]:
    """Return the tags of trials that hold a target, or have left something of theirs."""
    return {lease.tag for lease in (*services.table.leases(), *services.table.left())}


@contextmanager
def _logged_failures(tag: str) -> Iterator[None]:
    """Go on with the others where one cannot be removed; the next sweep tries again."""
    try:
        yield
    except (ClientError, BotoCoreError):
        logger.exception("what is left of a measured function cannot be removed", extra={"tag": tag})


def _functions(services: Services) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the functions whose names are those of copies, with the tag of the trial that is in the name."""
    prefix = copy_name("", services.settings.function_prefix)
    for page in services.aws("lambda").get_paginator("list_functions").paginate():
        for function in page["Functions"]:
            if function["FunctionName"].startswith(prefix):
                yield function["FunctionName"].removeprefix(prefix), function


def _is_copy(tag: str, function: dict[str, Any], services: Services) -> bool:
    """Return whether a function is a copy, no longer young; one of such a name without the tag is somebody's own."""
    modified = datetime.strptime(function["LastModified"], "%Y-%m-%dT%H:%M:%S.%f%z")
    if services.now() - modified <= YOUNG:
        return False
    tags = services.aws("lambda").list_tags(Resource=function["FunctionArn"])["Tags"]
    return bool(tags.get(TRIAL_TAG) == tag)


def _logged(services: Services) -> Iterator[str]:
    """Yield the tags of trials of which there is a log group, no longer young: a late invocation makes it anew."""
    prefix = f"/aws/lambda/{copy_name('', services.settings.function_prefix)}"
    until_ms = (services.now() - YOUNG).timestamp() * 1_000
    for page in services.aws("logs").get_paginator("describe_log_groups").paginate(logGroupNamePrefix=prefix):
        for group in page["logGroups"]:
            if group["creationTime"] < until_ms:
                yield group["logGroupName"].removeprefix(prefix)


def _kept(services: Services) -> Iterator[str]:
    """Yield the tags of trials of which there is copied code."""
    return (key.removeprefix(COPIES).removesuffix(".zip") for key in services.runs.keys(COPIES))


def _remove_function(tag: str, services: Services) -> None:
    """Remove a copy with its mappings; its log and its code follow at the next sweep, when nothing can use them."""
    name, client = copy_name(tag, services.settings.function_prefix), services.aws("lambda")
    for page in client.get_paginator("list_event_source_mappings").paginate(FunctionName=name):
        for mapping in page["EventSourceMappings"]:
            client.delete_event_source_mapping(UUID=mapping["UUID"])
    client.delete_function(FunctionName=name)
    logger.info("a copy without a trial is removed", extra={"copy": name})


def _remove_log(tag: str, services: Services) -> None:
    logs, name = services.aws("logs"), copy_name(tag, services.settings.function_prefix)
    with suppress(logs.exceptions.ResourceNotFoundException):
        logs.delete_log_group(logGroupName=f"/aws/lambda/{name}")
