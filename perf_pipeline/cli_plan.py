"""The commands about plans: check one, ask what it can see and which versions there are, print what may stand in one.

What belongs here: parse, call, print, as in `cli`.
"""

import json
from pathlib import Path

import click
from rich.console import Console

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.settings import read_settings

_PATH = click.Path(path_type=Path)


@click.group()
def plan() -> None:
    """Check a plan file, or print what may stand in one."""


@plan.command("check")
@click.argument("path", metavar="PLAN", type=_PATH)
def plan_check(path: Path) -> None:
    """Report every error of a PLAN at once, each with its line and field."""
    from perf_pipeline.judge import load_policy
    from perf_pipeline.plan import load_plan, named_policy

    problems: list[Problem] = []
    loaded = None
    try:
        loaded = load_plan(path, with_files=True)
    except InputError as error:
        problems += error.problems
    try:
        load_policy(named_policy(path), path.resolve().parent)
    except InputError as error:
        problems += [problem for problem in error.problems if problem not in problems]
    if problems or loaded is None:
        raise InputError(problems)
    runs = 2 * len(loaded.scenarios) * loaded.schedule.repeats
    load_s = runs * (loaded.load.warmup_s + loaded.load.hold_s)
    how_long = f"{load_s / 60:.0f} minutes" if load_s >= 120 else f"{load_s} seconds"
    click.echo(f"{path}: no errors. {runs} runs for each comparison, {how_long} of load.")


@plan.command("power")
@click.argument("path", metavar="PLAN", type=_PATH)
@click.option("--pilot", type=_PATH, help="Take the noise from the run directories in this folder.")
@click.option("--cv", type=click.FloatRange(0, 100, min_open=True), metavar="PERCENT", help="Assume this much noise.")
@click.option("--policy", help="Limits to plan by.  [default: the plan's]")
@click.option("--json", "as_json", is_flag=True, help="Print the same as JSON.")
def plan_power(path: Path, pilot: Path | None, cv: float | None, policy: str | None, as_json: bool) -> None:
    """What a campaign of PLAN can see, before it is run.

    The noise between runs is that of the plan's latest campaign, unless --pilot or --cv names another.
    """
    from perf_pipeline.campaigns import assumed_noise, noise_of_pilot, noise_of_plan, sights
    from perf_pipeline.judge import load_policy
    from perf_pipeline.plan import load_plan
    from perf_pipeline.report import power_table
    from perf_pipeline.storage import open_store

    if pilot is not None and cv is not None:
        raise click.UsageError("--pilot and --cv name two sources of noise; give one of them")
    loaded = load_plan(path)
    limits = load_policy(policy) if policy else load_policy(loaded.policy, loaded.folder)
    if cv is not None:
        noise, source = assumed_noise(loaded, cv / 100), f"an assumed coefficient of variation of {cv:g} %"
    elif pilot is not None:
        noise, source = noise_of_pilot(pilot, limits), f"the runs in {pilot}"
    else:
        noise, source = noise_of_plan(open_store(read_settings().store), loaded, limits), "the plan's latest campaign"
    seen = sights(loaded, limits, noise)
    if as_json:
        click.echo(json.dumps(power_table.to_json(loaded, seen, source), indent=2, allow_nan=False))
    else:
        Console().print(power_table.render(loaded, limits, seen, source))


@plan.command("versions")
@click.argument("path", metavar="PLAN", type=_PATH)
def plan_versions(path: Path) -> None:
    """Ask the version source of a PLAN, and say what the next night would compare."""
    from perf_pipeline.plan import comparison_key, load_plan
    from perf_pipeline.storage import open_store
    from perf_pipeline.version_source import nothing_newer, read_versions

    loaded = load_plan(path)
    versions = read_versions(loaded, open_store(read_settings().store))
    click.echo(f"release {versions.release}; builds {', '.join(versions.builds)}")
    if reason := nothing_newer(loaded, versions):
        click.echo(f"nothing to compare: {reason}")
    else:
        click.echo(f"to compare: {comparison_key(versions.release, versions.newest)}")


@plan.command("schema")
def plan_schema() -> None:
    """Print the JSON Schema of plan files."""
    from perf_pipeline.plan import Plan

    click.echo(json.dumps(Plan.model_json_schema(), indent=2))
