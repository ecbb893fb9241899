"""The command line: parse, call, print.

What belongs here: options and exit codes. 0: no regression. 1: regression. 2: the question or the input was wrong, and
the message says what to do. 3: not enough evidence (only with --require-evidence). 4: stopped by a safety lever.
"""

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from perf_pipeline.errors import InputError
from perf_pipeline.files import project_file
from perf_pipeline.settings import DEMO_PLAN, read_settings

if TYPE_CHECKING:
    from perf_pipeline.capture.token_keys import SigningKey
    from perf_pipeline.capture.token_source import TokenSource
    from perf_pipeline.plan import Plan

NOT_ENOUGH_EVIDENCE = 3

_PATH = click.Path(path_type=Path)


class _Commands(click.Group):
    """A group that turns an InputError of any command into its message and exit code 2."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            click.echo(error, err=True)
            sys.exit(2)


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
    _compare(project_file(DEMO_PLAN), baseline, candidate, fresh, exit_by_verdict=False)


@main.command()
@click.argument("plan", type=_PATH)
@click.option("--baseline", help="Version that runs today.  [default: the plan's]")
@click.option("--candidate", help="Version that might be released.  [default: the plan's]")
@click.option("--fresh", is_flag=True, help="Measure again runs that are already there.")
def compare(plan: Path, baseline: str | None, candidate: str | None, fresh: bool) -> None:
    """Measure and judge the comparison of a PLAN; runs that are already there are not repeated."""
    _compare(plan.absolute(), baseline, candidate, fresh, exit_by_verdict=True)


def _compare(plan_path: Path, baseline: str | None, candidate: str | None, fresh: bool, exit_by_verdict: bool) -> None:
    from perf_pipeline.capture.token_keys import ensure_signing_key
    from perf_pipeline.orchestration import become_comparison_job
    from perf_pipeline.plan import check_versions, comparison_key, load_plan
    from perf_pipeline.replay.k6 import find_k6

    settings = replace(read_settings(), plan=plan_path)
    plan = load_plan(plan_path)
    baseline, candidate = baseline or plan.baseline, candidate or plan.candidate
    check_versions(plan, baseline, candidate)
    comparison = comparison_key(baseline, candidate)
    k6 = find_k6()
    click.echo(f"{k6.version_text}, {k6.source}", err=True)
    if ensure_signing_key(settings.token_key_file):
        click.echo(f"made a key that signs the read-only tokens: {settings.token_key_file}", err=True)
    become_comparison_job(settings, comparison, fresh=fresh, exit_by_verdict=exit_by_verdict)


@main.command()
@click.option("--port", default=3000, show_default=True, help="Port on localhost.")
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

    judged = judge_folder(runs, baseline, candidate, load_policy(policy))
    judgement = judged.judgement
    command = f"perf-pipeline judge {runs} --baseline {baseline} --candidate {candidate} --policy {policy}"
    context = context_of(judged, runs.name, command)
    if html:
        write_file(html, html_report.render(judgement, context).encode())
    if as_json:
        click.echo(json.dumps(json_output.to_json(judgement), indent=2, allow_nan=False))
    elif as_markdown:
        click.echo(markdown.render(judgement, context))
    else:
        Console().print(terminal.render(judgement, context))
        if html:
            click.echo(f"Report: {html}")
    unanswered = require_evidence and judgement.decision.answer == "not enough evidence"
    sys.exit(NOT_ENOUGH_EVIDENCE if unanswered else judgement.decision.exit_code)


@main.group()
def plan() -> None:
    """Check a plan file, or print what may stand in one."""


@plan.command("check")
@click.argument("path", metavar="PLAN", type=_PATH)
def plan_check(path: Path) -> None:
    """Report every error of a PLAN at once, each with its line and field."""
    from perf_pipeline.judge import load_policy
    from perf_pipeline.plan import load_plan

    loaded = load_plan(path)
    load_policy(loaded.policy, loaded.folder)
    runs = 2 * len(loaded.scenarios) * loaded.schedule.repeats
    minutes = runs * (loaded.load.warmup_s + loaded.load.hold_s) / 60
    click.echo(f"{path}: no errors. {runs} runs for each comparison, {minutes:.0f} minutes of load.")


@plan.command("schema")
def plan_schema() -> None:
    """Print the JSON Schema of plan files."""
    from perf_pipeline.plan import Plan

    click.echo(json.dumps(Plan.model_json_schema(), indent=2))


@main.group()
def tokens() -> None:
    """Look after the read-only tokens of the replay, and the key that signs them."""


@tokens.command("check")
@click.argument("path", metavar="PLAN", type=_PATH)
@click.option("--for", "for_s", type=float, help="Seconds from now on.  [default: the time that a comparison takes]")
def tokens_check(path: Path, for_s: float | None) -> None:
    """Say whether the stored tokens of a PLAN last, and what becomes of a comparison if they do not."""
    from perf_pipeline.capture.token_source import refusal

    loaded, source = _token_source(path)
    review = source.review(time.time() + (loaded.comparison_s if for_s is None else for_s))
    if loaded.tokens.minted == "replay":
        click.echo("none is stored: they are made before each run (tokens.minted: replay)")
    elif review.last:
        click.echo(f"kept: {review}")
    elif loaded.tokens.expired == "refuse":
        raise refusal(loaded, review)
    else:
        click.echo(f"renewed before each run (tokens.expired: renew): {review}")


@tokens.command("renew")
@click.argument("path", metavar="PLAN", type=_PATH)
def tokens_renew(path: Path) -> None:
    """Store new tokens with the captured requests of a PLAN's hours; the old ones are gone."""
    from datetime import UTC, datetime

    from perf_pipeline.capture.token_renewal import renew_tokens
    from perf_pipeline.capture.token_source import token_issuer
    from perf_pipeline.plan import load_plan
    from perf_pipeline.storage import open_store

    loaded = load_plan(path)
    issuer, store = token_issuer(_signing_key(), loaded.tokens), open_store(read_settings().store)
    for hour in loaded.workload.hours:
        expiry_s = renew_tokens(store, hour, issuer)
        until = "it holds no requests" if expiry_s is None else f"until {datetime.fromtimestamp(expiry_s, UTC)}"
        click.echo(f"{hour}: {until}")


@tokens.command("public-key")
@click.option("--jwks", is_flag=True, help="As a JSON Web Key Set instead of PEM.")
def tokens_public_key(jwks: bool) -> None:
    """Print what services verify tokens with."""
    from perf_pipeline.capture.token_keys import public_jwk, public_key_pem

    key = _signing_key()
    click.echo(json.dumps({"keys": [public_jwk(key)]}, indent=2) if jwks else public_key_pem(key).strip())


@tokens.command("rotate-key")
@click.confirmation_option(prompt="Every token that was signed until now is to become worthless. Go on?")
def tokens_rotate_key() -> None:
    """Replace the key that signs tokens; services that learn the new public key refuse all older tokens."""
    from perf_pipeline.capture.token_keys import KEY_VARIABLE, public_key_pem, replace_signing_key
    from perf_pipeline.errors import Problem

    if os.environ.get(KEY_VARIABLE):
        raise InputError(
            Problem(KEY_VARIABLE, "holds the key, so it is not in a file", "replace it in your secret store")
        )
    path = read_settings().token_key_file
    replace_signing_key(path)
    click.echo(f"replaced {path}; give services the new public key:", err=True)
    click.echo(public_key_pem(_signing_key()).strip())


def _signing_key() -> "SigningKey":
    from perf_pipeline.capture.token_keys import KEY_FILE_VARIABLE, load_signing_key

    return load_signing_key({KEY_FILE_VARIABLE: str(read_settings().token_key_file)} | dict(os.environ))


def _token_source(path: Path) -> tuple["Plan", "TokenSource"]:
    from perf_pipeline.capture.token_source import TokenSource, token_issuer
    from perf_pipeline.plan import load_plan
    from perf_pipeline.storage import open_store

    loaded = load_plan(path)
    store = open_store(read_settings().store)
    return loaded, TokenSource(store, loaded, token_issuer(_signing_key(), loaded.tokens))
