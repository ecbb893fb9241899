"""The command line: parse, call, print.

What belongs here: options and exit codes. 0: no regression. 1: regression. 2: the question or the input was wrong, and
the message says what to do. 3: not enough evidence (only with --require-evidence). 70: a defect of ours. 130: stopped.
"""

import json
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.exits import NOT_ENOUGH_EVIDENCE, exit_code, write_whatever_the_encoding
from perf_pipeline.files import own_command, project_file
from perf_pipeline.settings import DEMO_PLAN, read_settings

_PATH = click.Path(path_type=Path)


class _Commands(click.Group):
    """A group that turns any error of a command into its message and an exit code that is no answer."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        write_whatever_the_encoding()
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except (Exception, KeyboardInterrupt) as error:
            sys.exit(exit_code(error))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="perf-pipeline")
def main() -> None:
    """Is the new version slower? Replay captured traffic against two versions and judge what changed."""


@main.command()
@click.option("--baseline", help="Version that runs today.  [default: the plan's]")
@click.option("--candidate", help="Version that might be released.  [default: the plan's]")
@click.option("--fresh", is_flag=True, help="Measure again runs that are already there.")
def demo(baseline: str | None, candidate: str | None, fresh: bool) -> None:
    """From a captured access log to a verdict, on this machine, in a few minutes.

    Compares two versions of the demo service. The default candidate 1.1.0 carries a real regression; 1.0.1 is the same
    as 1.0.0 in effect. Exits with 0 when the walk came to a verdict, whichever it is.
    """
    from importlib.util import find_spec

    if missing := [name for name in ("aiohttp", "httptools", "starlette", "uvicorn") if find_spec(name) is None]:
        remedy = "pip install 'perf-pipeline[demo]'"
        raise InputError(Problem("demo", f"the demo service needs {', '.join(missing)}", remedy))
    _compare(project_file(DEMO_PLAN), baseline, candidate, ["--fresh"] if fresh else [])


@main.command()
@click.argument("plan", type=_PATH)
@click.option("--baseline", help="Version that runs today.  [default: the plan's]")
@click.option("--candidate", help="Version that might be released.  [default: the plan's]")
@click.option("--fresh", is_flag=True, help="Measure again runs that are already there.")
@click.option("--json", "as_json", is_flag=True, help="Print the judgement as JSON (docs/judgement.schema.json).")
@click.option("--require-evidence", is_flag=True, help="Exit with 3 when the evidence is not enough for an answer.")
def compare(
    plan: Path, baseline: str | None, candidate: str | None, fresh: bool, as_json: bool, require_evidence: bool
) -> None:
    """Measure and judge the comparison of a PLAN; runs that are already there are not repeated."""
    flags = {"--fresh": fresh, "--json": as_json, "--require-evidence": require_evidence, "--exit-by-verdict": True}
    _compare(plan.absolute(), baseline, candidate, [flag for flag, given in flags.items() if given])


def _compare(plan_path: Path, baseline: str | None, candidate: str | None, flags: list[str]) -> None:
    from perf_pipeline.capture.tokens import KEY_FILE_VARIABLE, KEY_VARIABLE, ensure_signing_key, load_signing_key
    from perf_pipeline.orchestration import become_comparison_job
    from perf_pipeline.plan import check_versions, comparison_key, load_plan
    from perf_pipeline.replay.k6 import find_k6

    settings = replace(read_settings(), plan=plan_path)
    plan = load_plan(plan_path)
    baseline, candidate = baseline or plan.baseline, candidate or plan.candidate
    check_versions(plan, baseline, candidate)
    comparison = comparison_key(baseline, candidate)
    k6 = find_k6()
    click.echo(f"k6 {k6.version_text}, {k6.source}", err=True)
    # A key that the environment names has to be there: at a mistyped path a new one would only hide the mistake.
    if not (os.environ.get(KEY_VARIABLE) or os.environ.get(KEY_FILE_VARIABLE)) and ensure_signing_key(
        settings.token_key_file
    ):
        click.echo(f"made a key that signs the read-only tokens: {settings.token_key_file}", err=True)
    load_signing_key({KEY_FILE_VARIABLE: str(settings.token_key_file)} | dict(os.environ))
    become_comparison_job(settings, comparison, flags)


@main.command()
@click.option("--port", type=click.IntRange(1, 65_535), default=3000, show_default=True, help="Port on localhost.")
def ui(port: int) -> None:
    """Open Dagster on localhost with everything that was materialised."""
    from perf_pipeline.orchestration import become_ui

    become_ui(read_settings(), port)


@main.command()
@click.argument("runs", type=_PATH)
@click.option("--baseline", required=True, help="Version that runs today.")
@click.option("--candidate", required=True, help="Version that might be released.")
@click.option("--policy", default="default", show_default=True, help="A built-in policy by name, or a policy file.")
@click.option("--json", "as_json", is_flag=True, help="Print the judgement as JSON (docs/judgement.schema.json).")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the judgement as Markdown.")
@click.option("--html", "html", type=_PATH, help="Also write a self-contained HTML report to this file.")
@click.option("--require-evidence", is_flag=True, help="Exit with 3 when the evidence is not enough for an answer.")
def judge(
    runs: Path,
    baseline: str,
    candidate: str,
    policy: str,
    as_json: bool,
    as_markdown: bool,
    html: Path | None,
    require_evidence: bool,
) -> None:
    """Judge the run directories in the folder RUNS, whoever measured them."""
    from perf_pipeline.judge import judge_folder, load_policy
    from perf_pipeline.report import html as html_report
    from perf_pipeline.report import json_output, markdown, terminal
    from perf_pipeline.report.context import context_of
    from perf_pipeline.storage import write_file

    if as_json and as_markdown:
        raise InputError(Problem("--json --markdown", "are two forms of one answer", "ask for one of them"))
    judged = judge_folder(runs, baseline, candidate, load_policy(policy))
    judgement = judged.judgement
    command = ["judge", str(runs), "--baseline", baseline, "--candidate", candidate, "--policy", policy]
    context = context_of(judged, runs.resolve().name, shlex.join([own_command(), *command]))
    if as_json:
        click.echo(json.dumps(json_output.to_json(judgement), indent=2, allow_nan=False))
    elif as_markdown:
        click.echo(markdown.render(judgement, context))
    else:
        Console().print(terminal.render(judgement, context), crop=False)
    if html:
        # Last: the judgement is on stdout already when this file cannot be written.
        write_file(html, html_report.render(judgement, context).encode())
        click.echo(f"Report: {html}", err=as_json or as_markdown)
    unanswered = require_evidence and judgement.decision.answer == "not enough evidence"
    sys.exit(NOT_ENOUGH_EVIDENCE if unanswered else judgement.decision.exit_code)


@main.group()
def warehouse() -> None:
    """Keep the DuckDB file that people query."""


@warehouse.command("rebuild")
def warehouse_rebuild() -> None:
    """Make the DuckDB file anew from the tables in the object store."""
    from perf_pipeline.storage import open_store
    from perf_pipeline.warehouse import Warehouse

    settings = read_settings()
    comparisons = Warehouse(settings.warehouse).rebuild(open_store(settings.store))
    click.echo(f"{settings.warehouse}: {len(comparisons)} comparisons")


@main.group()
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


@plan.command("schema")
def plan_schema() -> None:
    """Print the JSON Schema of plan files."""
    from perf_pipeline.plan import Plan

    click.echo(json.dumps(Plan.model_json_schema(), indent=2))
