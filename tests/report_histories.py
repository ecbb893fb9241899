"""A history of releases for the tests of the index: twelve nights, each a little slower than the one before."""

from datetime import UTC, datetime, timedelta

from perf_pipeline.history.comparisons import JudgedComparison, WorstCell
from perf_pipeline.history.noise import CellNoise, LabNoise
from perf_pipeline.history.releases import Chained, Shift

NIGHTS = 12


def comparisons() -> list[JudgedComparison]:
    """The newest first; the fifth night was a regression, and in the eighth the negative control moved."""
    found = []
    for night in range(NIGHTS):
        baseline, candidate = f"1.{night}.0", f"1.{night + 1}.0"
        answer = {4: "regression", 7: "not enough evidence"}.get(night, "no regression")
        verdict = {"regression": "regression", "no regression": "equivalent"}.get(answer, "inconclusive")
        size = 0.214 if night == 4 else 0.01
        found.append(
            JudgedComparison(
                comparison=f"{baseline}__{candidate}",
                baseline=baseline,
                candidate=candidate,
                measured=datetime(2026, 11, 1, 4, tzinfo=UTC) + timedelta(days=night),
                answer=answer,
                headline=f"{answer.capitalize()} in {candidate} against {baseline}.",
                control_status="moved" if night == 7 else "quiet",
                aa_status=None,
                policy_name="default",
                policy_version="1",
                counts={"regression": 1, "equivalent": 9} if night == 4 else {"equivalent": 9, "inconclusive": 1},
                worst=WorstCell(
                    "browse", "client_latency", verdict, 99.0, size, size - 0.04, size + 0.04
                ),
            )
        )  # fmt: skip
    return found[::-1]


def chained() -> list[Chained]:
    """What the releases add up to: latency climbs by 1 % a release, memory stays; the oldest first."""
    rows = []
    for steps in range(1, NIGHTS + 1):
        for scenario in ("browse", "products"):
            for metric, step, reach in (("client_latency", 0.012, 0.006), ("service_memory", 0.0004, 0.004)):
                zone = 0.1 if metric == "client_latency" else 0.05
                size, half = step * steps, reach * steps**0.5
                answer = "regression" if size - half > zone else "equivalent" if size + half < zone else "inconclusive"
                row = Chained(
                    scenario, metric, "chain", "1.0.0", f"1.{steps}.0", steps, answer, "sum of comparisons",
                    95.0 if metric == "client_latency" else None, size, size - half, size + half, 1 / (1 + zone) - 1,
                    zone,
                )  # fmt: skip
                rows.append(row)
    return rows


def shifts() -> list[Shift]:
    """The lab became slower one night."""
    night = datetime(2026, 11, 6, 4, tzinfo=UTC)
    return [Shift("browse", "service_latency", "lab", "1.5.0__1.6.0", night, 0.08, 0.06, 0.1)]


def noise(unmeasured: int = 0) -> LabNoise:
    """What the newest night could have seen, the noisiest in zones first."""
    seen = {
        "service_p99": (0.05, 0.081, 0.079),
        "service_latency": (0.1, 0.136, 0.133),
        "client_latency": (0.1, 0.131, 0.134),
        "upstream_latency": (0.1, 0.128, 0.128),
        "http_error_rate": (0.0005, 0.00061, 0.0006),
        "service_memory": (0.05, 0.056, 0.056),
    }
    cells = tuple(
        CellNoise(scenario, metric, zone, now, before, 11, 5, 5)
        for metric, (zone, now, before) in seen.items()
        for scenario in ("browse", "products")
    )
    return LabNoise("1.11.0__1.12.0", cells, unmeasured)
