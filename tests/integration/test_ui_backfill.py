"""A backfill from the UI: several partitions chosen at *Materialize*, of which one fails and stops no other."""

import pytest

from tests.assets.test_backfill import KEYS, answer, measured
from tests.integration.deployment import Deployment, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def test_one_comparison_that_fails_stops_no_other_of_a_backfill(deployment: Deployment) -> None:
    """They are judged from recorded runs; nothing is measured, and the one in the middle has none."""
    measured(deployment.home, KEYS[0], slower=1.5)
    measured(deployment.home, KEYS[2], slower=1.0)
    deployment.start()
    backfill = deployment.backfill("judge_measured", KEYS)
    until(lambda: deployment.backfill_status(backfill) in ("COMPLETED", "COMPLETED_FAILED", "FAILED"), "its end")
    ended = {run["tags"]["dagster/partition"]: run["status"] for run in deployment.runs()}
    assert ended == {KEYS[0]: "SUCCESS", KEYS[1]: "FAILURE", KEYS[2]: "SUCCESS"}
    assert [answer(deployment.home, key)[0] for key in (KEYS[0], KEYS[2])] == [
        "regression", "not enough evidence"]  # fmt: skip
    assert not deployment.store.exists(f"reports/{KEYS[1]}/judgement.json")
