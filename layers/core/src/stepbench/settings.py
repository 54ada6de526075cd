"""The stack's settings, which its functions read from the environment once and pass on as an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from collections.abc import Mapping


class Settings(BaseModel):
    """The stack's resources and knobs; each field comes from the environment variable of its name in upper case."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    results_table: str
    results_bucket: str
    runs_table: str = ""
    one_run_at_a_time: bool = False
    """Whether runs wait for each other whatever they measure."""
    team_budget_usd: float = Field(default=0.0, ge=0)
    """What a team's runs of a month may cost; 0: anything."""
    account_budget_usd: float = Field(default=0.0, ge=0)
    """What all runs of a month may cost together."""
    benchmark_arn: str = ""
    """The state machine that runs plans; set where runs are started."""
    team_claim: str = "team"
    """The claim of a JWT that names the caller's team."""
    teams: str = ""
    """JSON: ARN of a role or user → team; any other caller is a team of its own name."""
    results_retention_days: int = Field(default=365, ge=1)
    target_bucket: str = ""
    files_bucket: str = ""
    """Where the files are that transfers download."""
    files_folder: str = ""
    """Where EFS is mounted, or what stands for it; empty: there is none."""
    transfer_platforms: str = "lambda"
    """What the stack can run transfers on, with commas."""
    target_table_prefix: str = ""
    receive_events_function_arn: str = ""
    check_clock_function_arn: str = ""
    measuring_layer_arn: str = ""
    """The layer that measures a function of somebody's own; set where copies of functions are made."""
    dataflow_arn: str = ""
    """The state machine that runs DAGs."""
    function_prefix: str = ""
    """Functions are named `<prefix>-<Name>`; so are log groups."""
    stream_failures_queue_arn: str = ""
    invoke_failures_queue_arn: str = ""
    """Where asynchronous invocations go that are given up."""
    failure_queues: str = ""
    """URLs of the on-failure queues, with commas."""
    postgresql_endpoint: str = ""
    """host:port/database"""
    postgresql_secret_arn: str = ""
    """Secret with username and password; else trust."""
    aurora_cluster: str = ""
    """Identifier of the stack's Aurora Serverless v2 cluster."""
    etcd_endpoint: str = ""
    """host:port"""
    redis_endpoint: str = ""
    """host:port, of Redis or Valkey"""
    redis_secret_arn: str = ""
    """Secret with username and password; else none is asked for."""
    cassandra_endpoint: str = ""
    """
    host:port, of Cassandra or ScyllaDB; several with commas. Of the stack's own hosts `<instance type>=<host:port>`.
    """
    cassandra_secret_arn: str = ""
    """Secret with username and password."""
    cassandra_control: str = ""
    """
    What tunes the stack's own node: the URL of the control beside a local one, or Systems Manager's
    `<instance>/<document>`; empty: it is not tuned.
    """
    tls_authority: str = ""
    """PEM file that servers' certificates have to be signed by; empty: the system's authorities."""
    postgresql_tls_endpoint: str = ""
    """host:port/database that operations go to, with TLS and without; else the one above."""
    redis_tls_endpoint: str = ""
    """host:port, where TLS has one of its own."""
    dsql_endpoints: str = ""
    """
    Clusters of Aurora DSQL: `single=<host>,multi=<host>`, either or both; the host names the region. Behind it
    `@<seconds>`, if it is known how long the cluster took to become active.
    """
    dynamodb_metric: str = ""
    """Metric as JSON, for an emulated table; empty: write units."""
    postgresql_metric: str = ""
    """JSON of the metric that measures how busy PostgreSQL is."""
    etcd_metric: str = ""
    """JSON of the metric that measures how busy etcd is."""
    reference_endpoint: str = ""
    """host:port of the store that calibrates us"""
    clock_reference: str = ""
    """SNTP server, host:port; empty: offsets stay unmeasured."""
    emulator: str = ""
    """Name and version of the emulator that plays AWS; empty on AWS."""
    allow_custom_endpoints: bool = False
    monitoring: bool = False
    """Whether metrics are written, which CloudWatch bills."""
    result_metrics: bool = False
    """Whether numbers of results are written as metrics, which CloudWatch bills."""
    load_host: str = ""
    """What writers run on, where that is a load host; empty in Lambda."""
    load_host_writers: int = 0
    """How many writers the load host runs at once; 0: there is no load host."""
    applications: Literal["on", "off"] = "on"
    """Whether tasks of DAGs have their libraries."""
    task_memory_mb: int = 0
    """MB of the functions that run tasks of DAGs; 0: not known."""
    lead_s: float = Field(default=30.0, ge=0.5, le=120)
    records_ttl_days: int = Field(default=30, ge=1)
    stack_options: str = ""
    """Parameters that decide costs: `Name=value;…`."""
    aws_region: str = "us-east-1"
    aws_lambda_function_memory_size: int = 0
    """MB; Lambda sets it, and CPU goes with it."""
    aws_endpoint_url: str = ""
    """Set by emulators only."""

    @property
    def permits_addresses(self) -> bool:
        """Return whether plans may name servers, of stores and of files, that the functions then connect to."""
        return self.allow_custom_endpoints or bool(self.emulator)

    @property
    def cassandra_hosts(self) -> dict[str, str]:
        """
        Return the addresses of the stack's own hosts with Cassandra by instance type, that which is tuned first.

        Of several of one type it is the first.
        """
        found: dict[str, str] = {}
        for type_, _, address in (entry.partition("=") for entry in self.cassandra_endpoint.split(",")):
            if address:
                found.setdefault(type_, address)
        return found

    def knows_server(self, store: str) -> bool:
        """
        Return whether a field named after the store holds the address of a server.

        Commas and `single=` alone are what the template makes of clusters that a stack has not got.
        """
        fields = (f"{store}_{name}" for name in ("endpoint", "tls_endpoint", "endpoints"))
        entries = (entry.strip() for field in fields for entry in getattr(self, field, "").split(","))
        return any(entry and not entry.endswith("=") for entry in entries)


def load_settings(environ: Mapping[str, str]) -> Settings:
    """
    Return the settings that an environment such as `os.environ` holds.

    Raises:
        pydantic.ValidationError: a required variable is missing, or one has a value of the wrong kind.
    """
    names = Settings.model_fields.keys()
    return Settings.model_validate({name: environ[name.upper()] for name in names if environ.get(name.upper())})


def is_sampled(environ: Mapping[str, str]) -> bool:
    """Return whether X-Ray samples this invocation, as Lambda's runtime states anew before each."""
    return "Sampled=1" in environ.get("_X_AMZN_TRACE_ID", "").split(";")
