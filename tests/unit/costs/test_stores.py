"""Aurora DSQL's bill, against the examples of its own documentation."""

from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.workload import Workload
from stepbench.costs.stores import COMPUTE_DPU, operation_dpu, preloading_dpu
from stepbench.experiments.estimates import budgeted


def _workload(value_bytes: int = 5, **fields: Any) -> Workload:  # noqa: ANN401 -- JSON
    record = {"shape": "blob", "key_bytes": 37, "value_bytes": value_bytes}
    return Workload.model_validate({"mix": {"read": 1}, "record": record, **fields})


def test_a_point_read_and_an_insert_of_a_small_row_cost_the_least_of_a_transaction() -> None:
    """Documented: 0.00375 for what is read, 0.05 for what is written; compute comes on top."""
    read, insert = operation_dpu(_workload()), operation_dpu(_workload(mix={"insert": 1}))
    assert read - COMPUTE_DPU == pytest.approx(0.00375, rel=1e-3)
    assert insert - read == pytest.approx(0.05, rel=1e-3)


def test_a_peer_doubles_what_is_written_and_nothing_else() -> None:
    """MultiRegionWriteDPU is WriteDPU again."""
    write = _workload(mix={"insert": 1})
    assert operation_dpu(write, regions=2) - operation_dpu(write) == pytest.approx(0.05, rel=1e-3)
    assert operation_dpu(_workload(), regions=2) == operation_dpu(_workload())


def test_large_rows_are_billed_by_the_byte() -> None:
    """10,000 bytes read are 0.01831 DPU in the documentation."""
    assert operation_dpu(_workload(10_000 - 77)) - COMPUTE_DPU == pytest.approx(0.01831, rel=1e-3)
    assert operation_dpu(_workload(10_000 - 77, mix={"insert": 1})) > 0.48


def test_loading_100_rows_costs_no_less_than_in_the_documentation() -> None:
    """0.70875 DPU for 100 rows of 128 bytes in one INSERT."""
    assert 0.70 <= preloading_dpu(_workload(51), 100) <= 0.80


@pytest.mark.parametrize(("cluster", "usd"), [("single", 0.559), ("multi", 0.959)])
def test_a_million_inserts_cost_half_a_dollar_and_more_with_a_peer(cluster: str, usd: float) -> None:
    """0.0698 DPU each at $8 a million DPU; with a peer 0.05 more."""
    plan = {
        "experiment": "operations",
        "target": {"store": "dsql", "cluster": cluster},
        "workload": _workload(mix={"insert": 1}, records=0).model_dump(mode="json"),
        "phases": [{"name": "a", "closed": {"clients": 10, "duration_s": 100, "operations": 1_000_000}}],
    }
    (line,) = (each for each in budgeted(TrialPlan.model_validate(plan)).lines if each.unit == "DPU")
    assert line.usd == pytest.approx(usd, rel=1e-2)
