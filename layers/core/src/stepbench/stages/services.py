"""What a stage works with. Built once per sandbox by `connect`; tests build their own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from stepbench.clock import Clock, SystemClock
from stepbench.contracts.plan import TrialSpec
from stepbench.records import layout
from stepbench.records.run_store import RunStore
from stepbench.records.shards import ShardReader
from stepbench.records.trial_table import TrialTable
from stepbench.settings import Settings, load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench.contracts.tasks import TrialRef


@dataclass(frozen=True)
class Services:
    """
    Everything outside the process.

    `aws` makes (and keeps) a boto3 client by service name; `runs` is the results bucket, `table` the results table.
    """

    settings: Settings
    runs: RunStore
    table: TrialTable
    clock: Clock
    aws: Callable[[str], Any]

    def trial(self, ref: TrialRef) -> TrialSpec:
        """The trial's stored specification."""
        return self.runs.get_model(layout.trial_key(ref, "trial.json"), TrialSpec)


_PATIENT = Config(
    retries={"mode": "standard", "max_attempts": 5}, connect_timeout=5, read_timeout=60, max_pool_connections=32
)
_PROMPT = {"xray": Config(retries={"mode": "standard", "total_max_attempts": 3}, connect_timeout=3, read_timeout=10)}
"""Services that a user waits for, before anything has begun."""


def connect(environ: Mapping[str, str], config: Config = _PATIENT) -> Services:
    """Services for an environment such as `os.environ`; the same object for the same environment and configuration."""
    return _connect(load_settings(environ), config)


@lru_cache(maxsize=4)
def _connect(settings: Settings, config: Config) -> Services:
    session = boto3.session.Session(region_name=settings.aws_region)

    @lru_cache(maxsize=32)
    def client(service: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
        return session.client(service, config=config.merge(_PROMPT.get(service, Config())))  # type: ignore[call-overload]

    @lru_cache(maxsize=1)
    def shards() -> ShardReader:
        return ShardReader(session.client("dynamodb", config=config), settings.results_table)

    table = session.resource("dynamodb", config=config).Table(settings.results_table)
    return Services(
        settings=settings,
        runs=RunStore(client("s3"), settings.results_bucket),
        table=TrialTable(table, settings.records_ttl_days, shards),
        clock=SystemClock(),
        aws=client,
    )
