"""A campaign: all runs of one comparison, in their random order, of which only the missing ones are measured.

What belongs here: the schedule and what is there already, one campaign at a time, and going on where an earlier one was
stopped. Runs that were measured under another plan, of another workload or another build are never mixed with new ones.
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.lab.interruption import orderly_end
from perf_pipeline.lab.local import LocalEnvironment
from perf_pipeline.lab.lock import one_campaign_at_a_time
from perf_pipeline.lab.placement import lab_on
from perf_pipeline.lab.run import Campaign, TokenSource, run_once
from perf_pipeline.lab.run_directory import RECORD_NAME, RunRecord, read_record
from perf_pipeline.plan import LOAD_MARGIN_S, Plan, check_versions, comparison_key
from perf_pipeline.progress import track
from perf_pipeline.replay.k6 import find_k6
from perf_pipeline.replay.schedule import PlannedRun, schedule_runs
from perf_pipeline.replay.workload import Workload
from perf_pipeline.storage import ObjectStore, working_folder

FAILURES_IN_A_ROW = 3
"""Runs that fail one after the other until a campaign stops: versions alternate, so the fault is not a version's."""


@dataclass(frozen=True)
class CampaignReport:
    """What a campaign did."""

    comparison: str
    measured: tuple[str, ...]
    """Runs that were measured now, in order."""
    found: tuple[str, ...]
    """Runs that were there already."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why runs failed, by run, whether measured now or found."""
    seconds: float = 0.0
    k6: str = ""
    """Version of k6 and where it comes from."""


def run_campaign(
    store: ObjectStore,
    plan: Plan,
    baseline: str,
    candidate: str,
    workload: Workload,
    tokens: TokenSource | Mapping[str, str],
    public_key: str,
    before_measuring: Callable[[float], None] = lambda _planned_end_s: None,
) -> CampaignReport:
    """Measure the runs of a comparison that are missing below `runs/<comparison>/`, and store their order beside them.

    `tokens` holds a token for every user of the workload, or is called before each run with the users that it needs and
    the unix time until which their tokens are needed; `public_key` (PEM) is what the service verifies them with.
    `before_measuring` is called once, with the unix time of the planned end, unless all runs are there already. Works
    in any thread; in the main thread SIGTERM ends it in order. Raises InputError when the plan cannot be run as it
    stands, when runs are there that must not be mixed with new ones, and after three runs in a row that failed.
    """
    began_s = time.monotonic()
    check_versions(plan, baseline, candidate)
    _check_scenarios(plan, workload)
    comparison = comparison_key(baseline, candidate)
    k6 = find_k6()
    with orderly_end(), one_campaign_at_a_time(comparison):
        environment = LocalEnvironment(plan, public_key)
        campaign = Campaign(
            comparison, plan, workload, environment, k6, tokens if callable(tokens) else lambda _users, _until_s: tokens
        )
        schedule = schedule_runs(plan, baseline, candidate)
        builds = {(run.version, run.scenario): _build(campaign, run) for run in schedule}
        found = _found_runs(store, campaign, schedule, builds)
        _store_schedule(store, campaign, schedule)
        missing = [planned for planned in schedule if planned.run_id not in found]
        if missing:
            before_measuring(time.time() + _load_s(plan) * len(missing) + LOAD_MARGIN_S)
        with lab_on(environment.placement.load):
            measured = _measure(store, campaign, missing, builds)
    records = {**found, **measured}
    return CampaignReport(
        comparison=comparison,
        measured=tuple(measured),
        found=tuple(found),
        failed={run_id: record.failure or "" for run_id, record in records.items() if record.status == "failed"},
        seconds=time.monotonic() - began_s,
        k6=f"{k6.version_text}, {k6.source}",
    )


def _check_scenarios(plan: Plan, workload: Workload) -> None:
    """Raise InputError for each scenario of which the workload holds no request, before anything is measured."""
    problems = [
        Problem(
            f"{plan.path}: scenarios: {scenario.name}: routes",
            f"the workload {workload.hash} holds no request of {', '.join(scenario.routes)}",
            "name other routes, or capture an hour that holds some",
        )
        for scenario in plan.scenarios
        if scenario.routes and not workload.routes.keys() & set(scenario.routes)
    ]
    if problems:
        raise InputError(problems)


def _build(campaign: Campaign, planned: PlannedRun) -> str:
    """Digest of the service that a run would measure now."""
    return campaign.environment.service_digest(planned.version, campaign.plan.scenario(planned.scenario))


def _measure(
    store: ObjectStore, campaign: Campaign, missing: list[PlannedRun], builds: Mapping[tuple[str, str], str]
) -> dict[str, RunRecord]:
    """Measure runs one after the other, each into the store as soon as it is there."""
    measured: dict[str, RunRecord] = {}
    in_a_row = 0
    for planned in track(missing, len(missing), "Measuring", label=lambda planned: planned.run_id):
        if _build(campaign, planned) != builds[planned.version, planned.scenario]:
            what = f"the service {planned.version} was changed while it was being measured"
            remedy = f"remove {store.uri(_prefix(campaign.comparison))} and measure again, without touching it"
            raise InputError(Problem(f"comparison {campaign.comparison}", what, remedy))
        with working_folder(store, "run") as folder:
            record = run_once(campaign, planned, folder)
            prefix = f"{_prefix(campaign.comparison)}/{planned.run_id}"
            store.put_folder(prefix, folder)
        measured[planned.run_id] = record
        in_a_row = in_a_row + 1 if record.failure else 0
        if in_a_row == FAILURES_IN_A_ROW:
            what = f"{in_a_row} runs in a row failed, the last one because {record.failure}"
            remedy = (
                f"read the logs in {store.uri(prefix)}/logs, then remove the failed runs to have them measured again"
            )
            raise InputError(Problem(f"comparison {campaign.comparison}", what, remedy))
    return measured


def _found_runs(
    store: ObjectStore, campaign: Campaign, schedule: list[PlannedRun], builds: Mapping[tuple[str, str], str]
) -> dict[str, RunRecord]:
    """The runs that are there. Raises InputError naming each field in which one differs from what is to be measured."""
    prefix = _prefix(campaign.comparison)
    planned = {run.run_id: run for run in schedule}
    found: dict[str, RunRecord] = {}
    problems: list[Problem] = []
    for key in store.keys(prefix):
        folder, _, name = key.rpartition("/")
        if name != RECORD_NAME:
            continue
        try:
            record = read_record(store.local_folder(folder))
        except InputError as error:
            problems.extend(error.problems)
            continue
        expected = {"plan": campaign.plan.hash, "workload": campaign.workload.hash}
        run = planned.get(record.run_id)
        if run is not None:
            expected["service_digest"] = builds[run.version, run.scenario]
        differing = [
            f"{name} is {getattr(record, name)} and would be {value} now"
            for name, value in expected.items()
            if getattr(record, name) != value
        ]
        if run is None and not differing:
            differing = ["it is not among the runs that the plan asks for"]
        if differing:
            remedy = (
                "measure everything again with `perf-pipeline compare PLAN --fresh` (demo: `demo --fresh`), "
                f"which removes {store.uri(prefix)}, or go back to what it was measured with"
            )
            problems.append(Problem(store.uri(key), "; ".join(differing), remedy))
        found[record.run_id] = record
    if problems:
        raise InputError(problems)
    return {run.run_id: found[run.run_id] for run in schedule if run.run_id in found}


def _store_schedule(store: ObjectStore, campaign: Campaign, schedule: list[PlannedRun]) -> None:
    """Store the order of the runs. It is a function of the plan, so a campaign that goes on writes the same again."""
    text = json.dumps(
        {
            "comparison": campaign.comparison,
            "plan": campaign.plan.hash,
            "workload": campaign.workload.hash,
            "seed": campaign.plan.schedule.seed,
            "runs": [planned.to_json() for planned in schedule],
        },
        indent=1,
    )
    store.put(f"{_prefix(campaign.comparison)}/schedule.json", text.encode() + b"\n")


def _load_s(plan: Plan) -> float:
    """Seconds of load in one run."""
    return plan.load.longest_s - LOAD_MARGIN_S


def _prefix(comparison: str) -> str:
    return f"runs/{comparison}"
