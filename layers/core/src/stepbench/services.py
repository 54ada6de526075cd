"""What a stage works with. Built once per sandbox by `connect`; tests build their own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import boto3
from botocore.config import Config
from pydantic import BaseModel

from stepbench.clock import Clock, SystemClock
from stepbench.contracts.plan import TrialSpec
from stepbench.errors import bounded
from stepbench.records.storage import layout
from stepbench.records.storage.run_register import RunRegister
from stepbench.records.storage.run_store import RunStore
from stepbench.records.storage.shards import ShardReader
from stepbench.records.storage.trial_table import TrialTable, dynamodb_table
from stepbench.settings import Settings, load_settings
from stepbench.traces import annotate
from stepbench.wire.http1.boto import bounded_client

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench.contracts.plan import TrialRef
    from stepbench.observability import Handler as ObservedHandler

    Handler = Callable[[dict[str, Any], object], dict[str, Any]]

Task = TypeVar("Task", bound=BaseModel)


@dataclass(frozen=True)
class Services:
    """
    Everything outside the process.

    `aws` makes (and keeps) a boto3 client by service name, or one that is named below; `runs` is the results bucket,
    `table` the results table, `register` the table of runs and of their queue.
    """

    settings: Settings
    runs: RunStore
    table: TrialTable
    clock: Clock
    aws: Callable[[str], Any]
    register: RunRegister

    def now(self) -> datetime:
        """Return the time of the clock."""
        return datetime.fromtimestamp(self.clock.now_ns() / 1e9, UTC)

    def trial(self, ref: TrialRef) -> TrialSpec:
        """Return the trial's stored specification."""
        spec = self.runs.get_model(layout.trial_key(ref, "trial.json"), TrialSpec)
        annotate(store=spec.plan.target.store, experiment=spec.plan.experiment)
        return spec


_PATIENT = Config(
    retries={"mode": "standard", "max_attempts": 5}, connect_timeout=5, read_timeout=60, max_pool_connections=32
)
PROMPT = Config(
    retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=2, read_timeout=4, max_pool_connections=32
)
"""Limits of calls for which somebody waits: three tries end within 20 s."""
LONG_CALLS = "lambda: long calls"
"""The client that waits for a function to its end: a call that boto3 gave up would be sent again while it runs."""
_OWN = {
    "s3": Config(signature_version="s3v4"),  # of links, too: their default is version 2, which new regions do not take
    "xray": Config(retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=3, read_timeout=10),
    LONG_CALLS: Config(retries={"mode": "standard", "total_max_attempts": 1}, read_timeout=890),
}
"""What differs, by client; of X-Ray, because a user waits for it before anything has begun."""

_REGIONAL = Config(s3={"addressing_style": "virtual"})
"""Links name the region, since the global host redirects those to a new bucket, and a signature is of one host."""


def connect(environ: Mapping[str, str], config: Config = _PATIENT) -> Services:
    """Connect services for an environment such as `os.environ`, once for each environment and configuration."""
    return _connect(load_settings(environ), config)


@lru_cache(maxsize=4)
def _connect(settings: Settings, config: Config) -> Services:
    session = boto3.session.Session(region_name=settings.aws_region)
    addressed = _REGIONAL if not settings.aws_endpoint_url else Config()

    @lru_cache(maxsize=32)
    def client(name: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
        service = name.partition(":")[0]
        own = config.merge(addressed).merge(_OWN.get(name, Config()))
        return bounded_client(session.client(service, config=own))  # type: ignore[call-overload]

    @lru_cache(maxsize=1)
    def shards() -> ShardReader:
        return ShardReader(bounded_client(session.client("dynamodb", config=config)), settings.results_table)

    table = dynamodb_table(session, settings.results_table, config)
    return Services(
        settings=settings,
        runs=RunStore(client("s3"), settings.results_bucket),
        table=TrialTable(table, settings.records_ttl_days, shards),
        clock=SystemClock(),
        aws=client,
        register=RunRegister(dynamodb_table(session, settings.runs_table, config), settings.results_retention_days),
    )


def stage_handler(stage: Callable[[Task, Services], BaseModel], input_model: type[Task]) -> Handler:
    """Return a handler that parses its event, calls the stage with the sandbox's services, and dumps the output."""

    def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
        try:
            return stage(input_model.model_validate(event), connect(os.environ)).model_dump(mode="json")
        except Exception as error:
            from stepbench.observability import log_failure  # noqa: PLC0415 -- writers start without it

            short = bounded(error)
            log_failure(short, event)
            if short is error:
                raise
            raise short from None

    return handler


def observed_handler(stage: Callable[[Task, Services], BaseModel], input_model: type[Task]) -> ObservedHandler:
    """Return the handler of a stage that measures nothing: as `stage_handler` makes it, with log context and trace."""
    from stepbench.observability import observed  # noqa: PLC0415 -- writers start without it

    return observed(stage_handler(stage, input_model))
