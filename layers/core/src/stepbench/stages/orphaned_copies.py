"""
Copies of measured functions that no trial holds any more, found by their names and removed.

A trial's own tear-down removes its copy. This is for what that could not know of: a copy that Lambda still made while
its maker was cut off, or whose lease somebody has deleted.
"""

from __future__ import annotations

from contextlib import suppress
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
    """Remove copies that no lease accounts for, with their logs and code; return their names."""
    held = {lease.tag for lease in (*services.table.leases(), *services.table.left())}
    removed = []
    try:
        for tag in _copies(services):
            if tag not in held:
                _remove(tag, services)
                removed.append(copy_name(tag, services.settings.function_prefix))
    except (ClientError, BotoCoreError):
        logger.exception("copies of measured functions could not be looked for, or removed")
    return tuple(removed)


def _copies(services: Services) -> Iterator[str]:
    """Yield the tags of trials whose copies are no longer young; a function of such a name without the tag is none."""
    client, prefix = services.aws("lambda"), copy_name("", services.settings.function_prefix)
    for page in client.get_paginator("list_functions").paginate():
        for function in page["Functions"]:
            name, tag = function["FunctionName"], function["FunctionName"].removeprefix(prefix)
            if name != tag and _is_old(function, services):
                tags = client.list_tags(Resource=function["FunctionArn"])["Tags"]
                if tags.get(TRIAL_TAG) == tag:
                    yield tag


def _is_old(function: dict[str, Any], services: Services) -> bool:
    modified = datetime.strptime(function["LastModified"], "%Y-%m-%dT%H:%M:%S.%f%z")
    return services.now() - modified > YOUNG


def _remove(tag: str, services: Services) -> None:
    name = copy_name(tag, services.settings.function_prefix)
    services.aws("lambda").delete_function(FunctionName=name)
    logs = services.aws("logs")
    with suppress(logs.exceptions.ResourceNotFoundException):
        logs.delete_log_group(logGroupName=f"/aws/lambda/{name}")
    services.aws("s3").delete_object(Bucket=services.settings.results_bucket, Key=f"{COPIES}{tag}.zip")
    logger.info("a copy without a trial is removed", extra={"copy": name})
