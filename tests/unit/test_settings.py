from __future__ import annotations

import pytest

from stepbench.settings import Settings


@pytest.mark.parametrize(
    ("store", "fields", "known"),
    [
        ("etcd", {}, False),
        ("etcd", {"etcd_endpoint": "10.0.0.1:2379"}, True),
        ("postgresql", {"postgresql_tls_endpoint": "10.0.0.1:5432/postgres"}, True),
        ("postgresql", {"postgresql_metric": "{}"}, False),
        ("cassandra", {"cassandra_endpoint": "10.0.0.1:9042,10.0.0.2:9042"}, True),
        ("dsql", {"dsql_endpoints": ",,,"}, False),
        ("dsql", {"dsql_endpoints": "single=,"}, False),
        ("dsql", {"dsql_endpoints": ",,single=abc.dsql.us-east-1.on.aws,"}, True),
        ("a-store-without-a-setting", {}, False),
    ],
)
def test_a_stack_knows_a_server_by_its_address(store: str, fields: dict[str, str], known: bool) -> None:  # noqa: FBT001 -- a parameter
    """The template joins DSQL's clusters with commas, also where it makes none."""
    settings = Settings.model_validate({"results_table": "t", "results_bucket": "b", **fields})
    assert settings.knows_server(store) is known
