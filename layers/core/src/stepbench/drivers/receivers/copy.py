"""
A copy of the user's own function, with the measuring layer where that is to measure.

The function itself is read, and never changed. The copy's code comes from where Lambda keeps that of the function, by
way of the results bucket, or from a package that the command line has uploaded there.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import urllib.request
from typing import TYPE_CHECKING, Any

from stepbench.contracts.function import MOST_ASYNCHRONOUS_ATTEMPTS
from stepbench.drivers.aws import AwsAccess, error_code
from stepbench.drivers.protocol import in_turn
from stepbench.drivers.receivers.source import (
    COPIES,
    MISSING,
    TRIAL_TAG,
    copy_name,
    copy_request,
    logging_config,
    named_version,
    needed_rights,
    package_configuration,
    source_problems,
)
from stepbench.errors import HIDDEN, PlanError, Problem, TargetUnavailableError, raise_problems
from stepbench.observability import logger
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from stepbench.clock import Clock
    from stepbench.contracts.plan import TrialSpec
    from stepbench.settings import Settings

_GONE = "ResourceNotFoundException"
_THERE = frozenset({"ResourceConflictException", "ResourceAlreadyExistsException"})
_DOWNLOAD_LIMIT_S = 60
_RUNTIME = f"python{sys.version_info.major}.{sys.version_info.minor}"
"""Of a package that names none: the stack's own."""
_VERSION = "1"
"""The only one that is ever published of a copy."""
_ACTIVE_LIMIT_S, _ACTIVE_POLL_S = 300, 0.25
"""Lambda makes network interfaces for a function in a VPC, or a snapshot, which takes minutes."""
_LOG_DAYS = 1
"""How long its lines are kept where a tear-down never comes."""


class FunctionCopy:
    """The copy of one trial."""

    def __init__(self, spec: TrialSpec, settings: Settings, clock: Clock) -> None:
        if spec.offered.target.function is None:
            message = f"trial {spec.name} measures no function"
            raise TypeError(message)
        self._spec = spec
        self._wanted = spec.offered.target.function
        self._clock = clock
        self._settings = settings
        self._aws = AwsAccess("lambda", spec, settings, clock, is_store=False)
        self._name = copy_name(spec.tag, settings.function_prefix)
        self._log_group = f"/aws/lambda/{self._name}"
        self._code_key = f"{COPIES}{spec.tag}.zip"
        self.failures_arn = settings.stream_failures_queue_arn

    @property
    def arn(self) -> str:
        """Return its ARN, of the version that is invoked, which is known before the copy is made."""
        of_stack = self._settings.receive_events_function_arn
        arn = f"{of_stack.rpartition(':')[0]}:{self._name}" if of_stack else ""
        return f"{arn}:{_VERSION}" if arn and self._wanted.snap_start else arn

    async def ensure(self) -> None:
        """
        Make the log group and the copy, each where it is missing, and wait until it can be invoked.

        Raises:
            PlanError: the function cannot be copied.
            TargetUnavailableError: AWS does not answer, or refuses, or the copy cannot be started.
        """
        if self._wanted.times == "layer" and not self._settings.measuring_layer_arn:
            message, remedy = "the stack has no measuring layer", "Deploy this version of the stack."
            raise PlanError([self._problem("", message, remedy)])
        if await self._find() is None:
            await self._make()
        await self._until_active()
        if self._wanted.snap_start:
            await self._aws.ask("publish_version", FunctionName=self._name)  # of the same code, it is the same version
            await self._until_active(_VERSION)
        await self._limit_attempts()
        if self._wanted.reserved_concurrency is not None:
            concurrency = self._wanted.reserved_concurrency
            await self._aws.ask(
                "put_function_concurrency", FunctionName=self._name, ReservedConcurrentExecutions=concurrency
            )
        if self._spec.offered.target.store == "s3":
            await self._admit_bucket()

    async def ready(self) -> bool:
        """Return whether the copy, or its version, is active."""
        return await self._active(_VERSION if self._wanted.snap_start else "")

    async def remove(self) -> bool:
        """
        Remove the copy; at the next call, once none was there, its code and its log group; true if there was no group.

        An invocation that is under way when its function goes still prints, and Lambda makes the group anew. It may go
        on for 15 minutes: what comes after the last call, the sweeper removes.
        """
        if await self._find() is not None:
            await self._removed("lambda", "delete_function", FunctionName=self._name)
            return False
        return await in_turn(self._remove_code, self._remove_log)

    async def _remove_code(self) -> bool:
        await self._removed("s3", "delete_object", Bucket=self._settings.results_bucket, Key=self._code_key)
        return True

    async def _remove_log(self) -> bool:
        return not await self._removed("logs", "delete_log_group", logGroupName=self._log_group)

    def resource_names(self) -> tuple[str, ...]:
        """See `Receiver`."""
        return f"function {self._name}", f"log group {self._log_group}"

    async def close(self) -> None:
        """End connections."""
        await self._aws.close()

    async def _find(self, version: str = "") -> dict[str, Any] | None:
        qualified = {"Qualifier": version} if version else {}
        try:
            return await self._aws.ask("get_function_configuration", FunctionName=self._name, **qualified)
        except TargetUnavailableError as error:
            if error_code(error) == _GONE:
                return None
            raise

    async def _active(self, version: str) -> bool:
        found = await self._find(version)
        if found is not None and found.get("State") == "Failed":
            message = f"the copy {self._name} cannot be started: {found.get('StateReason')}"
            raise TargetUnavailableError(message)
        return (
            found is not None
            and found.get("State", "Active") == "Active"
            and found.get("LastUpdateStatus", "Successful") == "Successful"
        )

    async def _until_active(self, version: str = "") -> None:
        until_ns = self._clock.now_ns() + _ACTIVE_LIMIT_S * 10**9
        while not await self._active(version):
            if self._clock.now_ns() > until_ns:
                message = f"the copy {self._name} is not active within {_ACTIVE_LIMIT_S} s"
                raise TargetUnavailableError(message)
            await asyncio.sleep(_ACTIVE_POLL_S)

    async def _limit_attempts(self) -> None:
        """Bound how often, and for how long, Lambda tries an asynchronous invocation."""
        queue = self._settings.invoke_failures_queue_arn
        await self._aws.ask(
            "put_function_event_invoke_config",
            FunctionName=self._name,
            **self._qualified,
            MaximumRetryAttempts=min(self._wanted.attempts, MOST_ASYNCHRONOUS_ATTEMPTS) - 1,
            MaximumEventAgeInSeconds=self._wanted.max_event_age_s,
            DestinationConfig={"OnFailure": {"Destination": queue}} if queue else {},
        )

    async def _make(self) -> None:
        variables = await self._variables()
        configuration, code = await (self._of_function if self._wanted.name else self._of_package)(variables)
        request = copy_request(configuration, self._wanted, self._settings.measuring_layer_arn, variables)
        await self._unless_there("logs", "create_log_group", logGroupName=self._log_group)
        await self._aws.ask("put_retention_policy", "logs", logGroupName=self._log_group, retentionInDays=_LOG_DAYS)
        try:
            await self._unless_there(
                "lambda",
                "create_function",
                FunctionName=self._name,
                Code=code,
                LoggingConfig=logging_config(self._wanted, self._log_group),
                Tags={TRIAL_TAG: self._spec.tag},
                **request,
            )
        except TargetUnavailableError as error:
            # Lambda repeats the variables that it refuses, with their values.
            said, quoted, _ = str(error).partition("{")
            if not quoted:
                raise
            raise type(error)(said + HIDDEN) from None

    async def _variables(self) -> dict[str, str]:
        """Return the variables that the measuring layer reads; none where Lambda's own lines have the times."""
        if self._wanted.times == "platform":
            return {}
        variables = {"STEPBENCH_TRIAL": self._spec.tag, "STEPBENCH_IDENTITY": self._identity()}
        if self._wanted.records == "table":
            endpoint = (await self._aws.client("dynamodb")).meta.endpoint_url
            variables["STEPBENCH_RESULTS_TABLE"] = f"{endpoint.rstrip('/')}/{self._settings.results_table}"
        return variables

    def _identity(self) -> str:
        """Return the attribute of an item in which DynamoDB's events have their identity; "" where keys alone do."""
        offered = self._spec.offered
        return offered.record.identity_attribute if offered.target.store == "dynamodb" else ""

    async def _of_function(self, variables: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the configuration of the function, and where its code has been copied to."""
        try:
            found = await self._aws.ask("get_function", **named_version(self._wanted.name or ""))
        except TargetUnavailableError as error:
            if error_code(error) != _GONE:
                raise
            raise PlanError([self._problem(".name", *MISSING)]) from error
        raise_problems(source_problems(self._path, found["Configuration"], self._wanted, variables))
        await self._require_rights(str(found["Configuration"]["Role"]))
        await self._aws.call(self._copy_code, found["Code"]["Location"], await self._aws.client("s3"))
        return found["Configuration"], {"S3Bucket": self._settings.results_bucket, "S3Key": self._code_key}

    async def _require_rights(self, role_arn: str) -> None:
        """Refuse a role that may not do what a copy needs, where IAM says so; where it does not, canaries show it."""
        partition, region, account = (self.arn.split(":")[place] for place in (1, 3, 4))
        at = f"{region}:{account}"
        group = f"arn:{partition}:logs:{at}:log-group:{self._log_group}"
        table = f"arn:{partition}:dynamodb:{at}:table/{self._settings.target_table_prefix}{self._spec.tag}"
        tabled = self._wanted.records == "table"
        results = f"arn:{partition}:dynamodb:{at}:table/{self._settings.results_table}" if tabled else ""
        denied = []
        queues = (self._settings.invoke_failures_queue_arn, self.failures_arn)
        for resource, actions in needed_rights(self._spec.offered.target.store, group, table, queues, results).items():
            wanted: dict[str, Any] = {"PolicySourceArn": role_arn, "ActionNames": actions, "ResourceArns": [resource]}
            if resource == results:
                wanted["ContextEntries"] = [_leading_key(layout.lines_pk(self._spec.tag, 0))]
            try:
                answer = await self._aws.ask("simulate_principal_policy", "iam", **wanted)
            except TargetUnavailableError:
                logger.info("the rights of %s cannot be asked for", role_arn)
                return
            judged = answer["EvaluationResults"]
            denied += [one["EvalActionName"] for one in judged if one["EvalDecision"] != "allowed"]
        if denied:
            message = f"has the role {role_arn}, which may not {', '.join(denied)} for a copy"
            remedy = "Attach the stack's MeasuringPolicy (an output) to the role."
            raise PlanError([self._problem(".name", message, remedy)])

    def _copy_code(self, location: str, s3: Any) -> None:  # noqa: ANN401 -- boto3's
        with urllib.request.urlopen(location, timeout=_DOWNLOAD_LIMIT_S) as code:  # noqa: S310 -- Lambda's own link
            s3.upload_fileobj(code, self._settings.results_bucket, self._code_key)

    async def _of_package(self, variables: dict[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        """Return a configuration for the package, and where its code is, after a look whether it is what it says."""
        key = self._wanted.package
        if key is None or not self._settings.emulator:
            message = "is code of the command line, which only an environment on its own machine runs"
            raise PlanError([self._problem("", message, "Deploy the function, and give its name.")])
        s3 = await self._aws.client("s3")
        await self._aws.call(self._require_whole, s3, key)
        account = self._settings.receive_events_function_arn.split(":")[4]
        role_arn = f"arn:aws:iam::{account}:role/{self._settings.function_prefix}-measured"
        configuration = package_configuration(self._wanted, _RUNTIME, role_arn)
        if self._wanted.variables_key is not None:
            values = await self._aws.call(self._private_values, s3, self._wanted.variables_key)
            configuration["Environment"] = {"Variables": values}
        raise_problems(source_problems(self._path, configuration, self._wanted, variables))
        return configuration, {"S3Bucket": self._settings.results_bucket, "S3Key": key}

    def _require_whole(self, s3: Any, key: str) -> None:  # noqa: ANN401 -- boto3's
        body = s3.get_object(Bucket=self._settings.results_bucket, Key=key)["Body"].read()
        if hashlib.sha256(body).hexdigest() not in key:
            message = "is not what was uploaded: its content has another SHA-256 than its name"
            raise PlanError([self._problem(".package", message, "Run the plan again with code.")])

    def _private_values(self, s3: Any, key: str) -> Any:  # noqa: ANN401 -- boto3's, and JSON
        return json.loads(s3.get_object(Bucket=self._settings.results_bucket, Key=key)["Body"].read())

    async def _admit_bucket(self) -> None:
        """Let the target bucket invoke the copy."""
        account = self.arn.split(":")[4]
        await self._unless_there(
            "lambda",
            "add_permission",
            FunctionName=self._name,
            **self._qualified,
            StatementId="target-bucket",
            Action="lambda:InvokeFunction",
            Principal="s3.amazonaws.com",
            SourceArn=f"arn:{self.arn.split(':')[1]}:s3:::{self._settings.target_bucket}",
            SourceAccount=account,
        )

    async def _unless_there(self, service: str, operation: str, **request: Any) -> None:  # noqa: ANN401 -- boto3's
        try:
            await self._aws.ask(operation, service, **request)
        except TargetUnavailableError as error:
            if error_code(error) not in _THERE:
                raise

    async def _removed(self, service: str, operation: str, **request: Any) -> bool:  # noqa: ANN401 -- boto3's
        """Remove something; return whether it was there."""
        try:
            await self._aws.ask(operation, service, **request)
        except TargetUnavailableError as error:
            if error_code(error) not in {_GONE, "NoSuchBucket"}:
                raise
            return False
        return True

    @property
    def _qualified(self) -> dict[str, str]:
        """Return what names the version that is invoked, where that is not the copy itself."""
        return {"Qualifier": _VERSION} if self._wanted.snap_start else {}

    @property
    def _path(self) -> str:
        return f"trial {self._spec.name}: target.function"

    def _problem(self, field: str, message: str, remedy: str) -> Problem:
        return Problem(path=self._path + field, value=repr(self._wanted.described), message=message, remedy=remedy)


def _leading_key(key: str) -> dict[str, Any]:
    """Return what a policy's condition on the keys of DynamoDB's items is judged by."""
    return {"ContextKeyName": "dynamodb:LeadingKeys", "ContextKeyValues": [key], "ContextKeyType": "stringList"}
