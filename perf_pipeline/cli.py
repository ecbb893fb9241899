"""The command line: parse, call, print.

What belongs here: options and exit codes. 0: no regression. 1: regression. 2: the question or the input was wrong, and
the message says what to do. 3: not enough evidence (only with --require-evidence). 70: a defect of ours. 130: stopped.
"""

import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from perf_pipeline.cli_plan import plan as plan_commands
from perf_pipeline.cli_upkeep import prune, tokens, warehouse
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
    from perf_pipeline.capture.token_keys import KEY_FILE_VARIABLE, KEY_VARIABLE, ensure_signing_key, load_signing_key
    from perf_pipeline.judge import load_policy
    from perf_pipeline.orchestration import become_comparison_job
    from perf_pipeline.plan import check_versions, comparison_key, load_plan
    from perf_pipeline.replay.k6 import find_k6

    settings = replace(read_settings(), plan=plan_path)
    plan = load_plan(plan_path)
    load_policy(settings.policy or plan.policy, plan.folder)  # it judges hours later, and is refused now
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
@click.argument("plan", type=_PATH)
@click.argument("comparisons", nargs=-1, metavar="[BASELINE__CANDIDATE]...")
@click.option("--from", "first", metavar="COMPARISON", help="First comparison of a range, in order of their making.")
@click.option("--to", "last", metavar="COMPARISON", help="Last comparison of a range.")
@click.option("--judge-only", is_flag=True, help="Judge stored metrics again; nothing is measured.")
@click.option("--policy", help="Judge by this policy in place of the plan's: a built-in one by name, or a file.")
def backfill(
    plan: Path,
    comparisons: tuple[str, ...],
    first: str | None,
    last: str | None,
    judge_only: bool,
    policy: str | None,
) -> None:
    """Measure and judge many comparisons of a PLAN: those that are named, a range, or all that are known.

    Runs that are already there are not repeated. A comparison that fails stops no other; the exit code is 2 then.
    """
    from perf_pipeline.capture.token_keys import ensure_signing_key
    from perf_pipeline.judge import load_policy
    from perf_pipeline.orchestration import become_backfill
    from perf_pipeline.plan import load_plan, split_comparison_key

    settings = replace(read_settings(), plan=plan.absolute())
    loaded = load_plan(settings.plan)
    for key in comparisons:
        split_comparison_key(key)
    if policy:
        load_policy(policy)
        settings = replace(settings, policy=str(Path(policy).absolute()) if Path(policy).is_file() else policy)
    else:
        load_policy(settings.policy or loaded.policy, loaded.folder)
    if not judge_only:
        ensure_signing_key(settings.token_key_file)
    become_backfill(settings, comparisons, first, last, judge_only)


@main.command()
@click.option("--port", type=click.IntRange(1, 65_535), default=3000, show_default=True, help="Port on localhost.")
def ui(port: int) -> None:
    """Open Dagster on localhost with everything that was materialised."""
    from perf_pipeline.orchestration import become_ui

    become_ui(read_settings(), port)


_OF_OTHERS = (
    click.option(
        "--pattern", help="Where paths name the run: '{version}/{scenario}/{repeat}/*'.  [default: told from them]"
    ),
    click.option(
        "--rate", "rates", multiple=True, metavar="[SCENARIO=]PER_S", help="Target rate; repeat it by scenario."
    ),
    click.option("--warmup", metavar="TIME", help="From the start of the load, no part of the hold: 30, 2m30s."),
    click.option("--hold", metavar="TIME", help="Length of the hold.  [default: to the end of the load]"),
    click.option(
        "--unit", metavar="ns|us|ms|s", help="Of HdrHistogram's values.  [default: ns in logs, ms in spectra]"
    ),
)


def _reads_results_of_others(command: Callable) -> Callable:
    """The options that say what the results of other load generators do not."""
    for option in reversed(_OF_OTHERS):
        command = option(command)
    return command


@main.command()
@click.argument("runs", type=_PATH)
@click.option("--baseline", required=True, help="Version that runs today.")
@click.option("--candidate", required=True, help="Version that might be released.")
@click.option("--policy", default="default", show_default=True, help="A built-in policy by name, or a policy file.")
@_reads_results_of_others
@click.option("--json", "as_json", is_flag=True, help="Print the judgement as JSON (docs/judgement.schema.json).")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print the judgement as Markdown.")
@click.option("--html", "html", type=_PATH, help="Also write a self-contained HTML report to this file.")
@click.option("--junit", "junit", type=_PATH, help="Also write JUnit XML for CI systems to this file.")
@click.option("--require-evidence", is_flag=True, help="Exit with 3 when the evidence is not enough for an answer.")
def judge(
    runs: Path,
    baseline: str,
    candidate: str,
    policy: str,
    pattern: str | None,
    rates: tuple[str, ...],
    warmup: str | None,
    hold: str | None,
    unit: str | None,
    as_json: bool,
    as_markdown: bool,
    html: Path | None,
    junit: Path | None,
    require_evidence: bool,
) -> None:
    """Judge the runs in the folder RUNS, whoever measured them.

    Run directories say all about themselves. For the results of other load generators (k6 CSV and JSON, HdrHistogram
    logs and spectra, vegeta, wrk2; docs/results-of-others.md) --rate, --warmup and --hold say what their files do not.
    """
    from perf_pipeline.judge import judge_folder, load_policy
    from perf_pipeline.metrics.foreign.told import parse_told
    from perf_pipeline.report import html as html_report
    from perf_pipeline.report import json_output, markdown, terminal
    from perf_pipeline.report import junit as junit_report
    from perf_pipeline.report.context import context_of
    from perf_pipeline.storage import write_file

    if as_json and as_markdown:
        raise InputError(Problem("--json --markdown", "are two forms of one answer", "ask for one of them"))
    told = parse_told(rates, warmup, hold, unit)
    judged = judge_folder(runs, baseline, candidate, load_policy(policy), told, pattern)
    judgement = judged.judgement
    said = [("--baseline", baseline), ("--candidate", candidate), ("--policy", policy), ("--pattern", pattern)]
    said += [*(("--rate", rate) for rate in rates), ("--warmup", warmup), ("--hold", hold), ("--unit", unit)]
    options = [word for option, value in said if value is not None for word in (option, value)]
    context = context_of(judged, runs.resolve().name, shlex.join([own_command(), "judge", str(runs), *options]))
    if as_json:
        click.echo(json.dumps(json_output.to_json(judgement), indent=2, allow_nan=False))
    elif as_markdown:
        click.echo(markdown.render(judgement, context))
    else:
        Console().print(terminal.render(judgement, context), crop=False)
    # Last: the judgement is on stdout already when one of these files cannot be written.
    if junit:
        write_file(junit, junit_report.render(judgement).encode())
    if html:
        write_file(html, html_report.render(judgement, context).encode())
        click.echo(f"Report: {html}", err=as_json or as_markdown)
    unanswered = require_evidence and judgement.decision.answer == "not enough evidence"
    sys.exit(NOT_ENOUGH_EVIDENCE if unanswered else judgement.decision.exit_code)


@main.group("policy")
def policy_group() -> None:
    """Compare policies by what they make of runs."""


@policy_group.command("diff")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.argument("runs", type=_PATH)
@click.option("--baseline", help="Version that runs today.  [default: from RUNS named <baseline>__<candidate>]")
@click.option("--candidate", help="Version that might be released.  [default: likewise]")
@_reads_results_of_others
@click.option("--json", "as_json", is_flag=True, help="Print the same as JSON.")
@click.option("--require-evidence", is_flag=True, help="Exit with 3 when the evidence is not enough for B's answer.")
def policy_diff(
    before: str,
    after: str,
    runs: Path,
    baseline: str | None,
    candidate: str | None,
    pattern: str | None,
    rates: tuple[str, ...],
    warmup: str | None,
    hold: str | None,
    unit: str | None,
    as_json: bool,
    require_evidence: bool,
) -> None:
    """Which verdicts on the runs in RUNS change from policy A to policy B, and why.

    A and B are built-in policies by name, or policy files. Nothing is measured again. Exits as `judge --policy B` does.
    """
    from perf_pipeline.judge import load_policy
    from perf_pipeline.metrics.foreign.told import parse_told
    from perf_pipeline.plan import split_comparison_key
    from perf_pipeline.policy_diff import diff_folder
    from perf_pipeline.report import policy_table

    if baseline is None or candidate is None:
        key = split_comparison_key(runs.absolute().name)
        baseline, candidate = baseline or key[0], candidate or key[1]
    told = parse_told(rates, warmup, hold, unit)
    diff = diff_folder(runs, baseline, candidate, load_policy(before), load_policy(after), told, pattern)
    if as_json:
        click.echo(json.dumps(policy_table.to_json(diff), indent=2, allow_nan=False))
    else:
        Console().print(policy_table.render(diff))
    decision = diff.after.decision
    unanswered = require_evidence and decision.answer == "not enough evidence"
    sys.exit(NOT_ENOUGH_EVIDENCE if unanswered else decision.exit_code)


for _command in (plan_commands, prune, warehouse, tokens):
    main.add_command(_command)
