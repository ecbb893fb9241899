"""A campaign: all runs of one comparison, in their random order, of which only the missing ones are measured.

What belongs here: the schedule and what is there already, one campaign at a time, and going on where an earlier one was
stopped. Where the plan has looks, only scenarios that are still open get more repeats. Runs that were measured under
another plan, of another workload or another build are never mixed with new ones.
"""

import json
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from perf_pipeline.errors import InputError, Problem, StoreAwayError
from perf_pipeline.lab.interruption import orderly_end
from perf_pipeline.lab.local import LocalEnvironment
from perf_pipeline.lab.lock import one_campaign_at_a_time
from perf_pipeline.lab.patience import patiently
from perf_pipeline.lab.placement import lab_on
from perf_pipeline.lab.run import Campaign, TokenSource, run_once
from perf_pipeline.lab.run_directory import RECORD_NAME, RunRecord, read_record
from perf_pipeline.plan import LOAD_MARGIN_S, Plan, check_versions, comparison_key
from perf_pipeline.progress import track
from perf_pipeline.replay.k6 import find_k6
from perf_pipeline.replay.schedule import PlannedRun, schedule_runs
from perf_pipeline.replay.workload import Workload
from perf_pipeline.storage import ObjectStore, remove_abandoned, working_folder

FAILURES_IN_A_ROW = 3
"""Runs that fail one after the other until a campaign stops: versions alternate, so the fault is not a version's."""

Settled = Callable[[int], Collection[str]]
"""Asked at a look, with its repeats: which scenarios need no more of them."""


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
    spared: tuple[str, ...] = ()
    """Runs that no scenario needed any more after one of the planned looks."""
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
    fresh: bool = False,
    settled: Settled | None = None,
    before_measuring: Callable[[float], None] = lambda _planned_end_s: None,
) -> CampaignReport:
    """Measure the runs of a comparison that are missing below `runs/<comparison>/`, and store their order beside them.

    `tokens` holds a token for every user of the workload, or is called before each run with the users that it needs and
    the unix time until which their tokens are needed; `public_key` (PEM) is what the service verifies them with.
    `settled` answers the looks that the plan schedules: what it said once is kept beside the runs and never asked
    again, so that a campaign that goes on takes the same decisions. `fresh` removes the runs that are there, once each
    version has been seen to start. `before_measuring` is called once, with the unix time of the planned end, unless all
    runs are there already: then no other campaign on this machine is waited for. Works in any thread; in the main
    thread SIGTERM ends it in order. Raises InputError when the plan cannot be run as it stands, when runs are there
    that must not be mixed with new ones, and after three runs in a row that failed.
    """
    began_s = time.monotonic()
    check_versions(plan, baseline, candidate)
    _check_scenarios(plan, workload)
    comparison = comparison_key(baseline, candidate)
    k6 = find_k6()
    environment = LocalEnvironment(plan, public_key)
    campaign = Campaign(
        comparison, plan, workload, environment, k6, tokens if callable(tokens) else lambda _users, _until_s: tokens
    )
    schedule = schedule_runs(plan, baseline, candidate)
    # Whoever measures now would be waited for in vain.
    if not fresh and (found := _finished(store, campaign, schedule, looks=settled is not None)) is not None:
        return _report(campaign, schedule, found, {}, began_s)
    with orderly_end(), one_campaign_at_a_time(comparison):
        remove_abandoned(store)
        builds = {(run.version, run.scenario): _build(campaign, run) for run in schedule}
        if fresh and store.keys(_prefix(comparison)):
            _check_that_services_start(store, campaign, schedule)
            store.delete(_prefix(comparison))
        found = _found_runs(store, campaign, schedule)
        _store_schedule(store, campaign, schedule)
        measured: dict[str, RunRecord] = {}
        done: set[str] = set()
        if missing := [run for run in schedule if run.run_id not in found]:
            before_measuring(time.time() + _load_s(plan) * len(missing) + LOAD_MARGIN_S)
        for look in plan.schedule.looks or (plan.schedule.repeats,):
            wanted = [run for run in schedule if run.repeat <= look and run.scenario not in done]
            missing = [run for run in wanted if run.run_id not in found and run.run_id not in measured]
            with lab_on(environment.placement.load):
                measured |= _measure(store, campaign, missing, builds)
            if settled is not None and look < plan.schedule.repeats:
                done |= patiently(partial(_look, store, comparison, look, settled), store.uri(_prefix(comparison)))
    return _report(campaign, schedule, found, measured, began_s)


def _report(
    campaign: Campaign,
    schedule: list[PlannedRun],
    found: Mapping[str, RunRecord],
    measured: Mapping[str, RunRecord],
    began_s: float,
) -> CampaignReport:
    """What was found, measured and spared, since a time of the monotonic clock."""
    records, k6 = {**found, **measured}, campaign.k6
    return CampaignReport(
        comparison=campaign.comparison,
        measured=tuple(measured),
        found=tuple(found),
        failed={run_id: record.failure or "" for run_id, record in records.items() if record.status == "failed"},
        seconds=time.monotonic() - began_s,
        k6=f"{k6.version_text}, {k6.source}",
        spared=tuple(run.run_id for run in schedule if run.run_id not in records),
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


def _check_that_services_start(store: ObjectStore, campaign: Campaign, schedule: list[PlannedRun]) -> None:
    """Start each version once in each scenario. Raises InputError where one does not become ready."""
    for version, scenario in dict.fromkeys((run.version, run.scenario) for run in schedule):
        with (
            working_folder(store, "start") as logs,
            campaign.environment.started(version, campaign.plan.scenario(scenario), logs),
        ):
            pass


def _build(campaign: Campaign, planned: PlannedRun) -> Mapping[str, str]:
    """Parts of the service that a run would measure now."""
    return campaign.environment.service_parts(planned.version, campaign.plan.scenario(planned.scenario))


def _measure(
    store: ObjectStore,
    campaign: Campaign,
    missing: list[PlannedRun],
    builds: Mapping[tuple[str, str], Mapping[str, str]],
) -> dict[str, RunRecord]:
    """Measure runs one after the other, each into the store as soon as it is there."""
    measured: dict[str, RunRecord] = {}
    in_a_row = 0
    for planned in track(missing, len(missing), "Measuring", label=lambda planned: planned.run_id):
        if (now := _build(campaign, planned)) != (then := builds[planned.version, planned.scenario]):
            changed = sorted(name for name in now.keys() | then.keys() if now.get(name) != then.get(name))
            what = f"the service {planned.version} was changed while it was being measured: {', '.join(changed)}"
            remedy = (
                "measure again with --fresh, without touching it; where the service writes that file itself, have it "
                "write into another folder than that of its source"
            )
            raise InputError(Problem(f"comparison {campaign.comparison}", what, remedy))
        prefix = f"{_prefix(campaign.comparison)}/{planned.run_id}"
        record = _measure_run(store, campaign, planned, prefix)
        measured[planned.run_id] = record
        in_a_row = in_a_row + 1 if record.failure else 0
        if in_a_row == FAILURES_IN_A_ROW:
            what = f"{in_a_row} runs in a row failed, the last one because {record.failure}"
            remedy = (
                f"read the logs in {store.uri(prefix)}/logs, then remove the failed runs to have them measured again"
            )
            raise InputError(Problem(f"comparison {campaign.comparison}", what, remedy))
    return measured


def _measure_run(store: ObjectStore, campaign: Campaign, planned: PlannedRun, prefix: str) -> RunRecord:
    """Measure one run into the store. Raises InputError when it cannot be written: nothing of it is kept then."""
    try:
        with ExitStack() as stack:
            folder = patiently(lambda: stack.enter_context(working_folder(store, "run")), store.uri(prefix))
            record = run_once(campaign, planned, folder)
            patiently(lambda: store.put_folder(prefix, folder), store.uri(prefix))
        return record
    except OSError as error:
        what = f"the run could not be written: {error.strerror or error}"
        remedy = (
            "make room there, or make it writable; nothing of this run is kept, all runs before it are, and the same "
            "command goes on with what is missing"
        )
        raise InputError(Problem(store.uri(prefix), what, remedy)) from error
    except StoreAwayError as error:
        what = f"the run could not be written: {error.problems[0].what}"
        remedy = (
            f"see that the store's server runs and can be reached; the run {planned.run_id} is lost, all runs before "
            "it are kept, and the same command measures it again and goes on with what is missing"
        )
        raise StoreAwayError(Problem(store.uri(prefix), what, remedy)) from error


def _look(store: ObjectStore, comparison: str, look: int, settled: Settled) -> set[str]:
    """The scenarios that are settled at a look: what was said at it before, or what is said now, kept for later."""
    said = _said(store, comparison)
    if str(look) not in said:
        said[str(look)] = sorted(settled(look))
        store.put(f"{_prefix(comparison)}/looks.json", json.dumps(said, indent=1).encode() + b"\n")
    return set(said[str(look)])


def _said(store: ObjectStore, comparison: str) -> dict[str, list[str]]:
    """The scenarios that were settled at each look that was taken, by its repeats."""
    key = f"{_prefix(comparison)}/looks.json"
    return json.loads(store.get(key)) if store.exists(key) else {}


def _finished(
    store: ObjectStore, campaign: Campaign, schedule: list[PlannedRun], looks: bool
) -> dict[str, RunRecord] | None:
    """The runs that are there when no other is wanted; None when one is missing or, with `looks`, a look to be taken.

    Raises InputError as `_found_runs` does.
    """
    if not store.exists(f"{_prefix(campaign.comparison)}/schedule.json"):
        return None
    try:
        found = _found_runs(store, campaign, schedule)
        said = _said(store, campaign.comparison) if looks else {}
    except KeyError:  # another campaign is removing them, to measure them afresh
        return None
    repeats, done = campaign.plan.schedule.repeats, set[str]()
    for look in campaign.plan.schedule.looks or (repeats,):
        wanted = [run for run in schedule if run.repeat <= look and run.scenario not in done]
        if any(run.run_id not in found for run in wanted) or (looks and look < repeats and str(look) not in said):
            return None
        done |= set(said.get(str(look), ()))
    return found


def _found_runs(store: ObjectStore, campaign: Campaign, schedule: list[PlannedRun]) -> dict[str, RunRecord]:
    """The runs that are there. Raises InputError naming, once, what differs from what is to be measured."""
    prefix = _prefix(campaign.comparison)
    planned = {run.run_id: run for run in schedule}
    digests = {
        (run.version, run.scenario): campaign.environment.service_digest(
            run.version, campaign.plan.scenario(run.scenario)
        )
        for run in schedule
    }
    found: dict[str, RunRecord] = {}
    problems: list[Problem] = []
    differing: dict[str, list[str]] = {}
    for key in store.keys(prefix):
        folder, _, name = key.rpartition("/")
        if name != RECORD_NAME:
            continue
        try:
            record = read_record(store.local_folder(folder))
        except StoreAwayError:  # no record is wrong, and asking for the next one takes as long again
            raise
        except InputError as error:
            problems.extend(error.problems)
            continue
        run = planned.get(record.run_id)
        if record.plan != campaign.plan.hash:
            differing.setdefault(_plan_change(store, campaign), []).append(record.run_id)
        if record.workload != campaign.workload.hash:
            what = f"the workload is {campaign.workload.hash} now and was {record.workload}"
            differing.setdefault(what, []).append(record.run_id)
        if run is not None and record.service_digest != digests[run.version, run.scenario]:
            what = f"the service {record.version} is another now: its command, variables, program or source files"
            differing.setdefault(what, []).append(record.run_id)
        if run is None and record.plan == campaign.plan.hash and record.workload == campaign.workload.hash:
            differing.setdefault("the plan does not ask for a run that is there", []).append(record.run_id)
        found[record.run_id] = record
    remedy = (
        "go back to what it was measured with, keep both by another PERF_PIPELINE_HOME, or measure everything again "
        f"with `perf-pipeline compare PLAN --fresh` (demo: `demo --fresh`), which removes {store.uri(prefix)}"
    )
    for what, run_ids in differing.items():
        others = f" and {len(run_ids) - 1} more" if len(run_ids) > 1 else ""
        where = f"comparison {campaign.comparison}"
        problems.append(Problem(where, f"{what} (it concerns {run_ids[0]}{others})", remedy))
    if problems:
        raise InputError(problems)
    return {run.run_id: found[run.run_id] for run in schedule if run.run_id in found}


def _plan_change(store: ObjectStore, campaign: Campaign) -> str:
    """Which fields of the plan are others than those that the stored runs were measured with, in words."""
    try:
        then = json.loads(store.get(f"{_prefix(campaign.comparison)}/schedule.json"))["plan_fields"]
    except (KeyError, TypeError, ValueError):
        return "the plan is another than the one that it was measured with"
    now = campaign.plan.field_hashes()
    changed = [path for path in sorted({*then, *now}) if then.get(path) != now.get(path)]
    shown = ", ".join(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
    return (
        f"the plan was changed in {shown}" if changed else "the plan is another than the one that it was measured with"
    )


def _store_schedule(store: ObjectStore, campaign: Campaign, schedule: list[PlannedRun]) -> None:
    """Store the order of the runs. It is a function of the plan, so a campaign that goes on writes the same again."""
    text = json.dumps(
        {
            "comparison": campaign.comparison,
            "plan": campaign.plan.hash,
            "plan_fields": campaign.plan.field_hashes(),
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
