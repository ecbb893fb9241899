"""The commands that keep a deployment: what has expired, the warehouse, tokens and the key that signs them.

What belongs here: parse, call, print, as in `cli`.
"""

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.settings import read_settings

if TYPE_CHECKING:
    from perf_pipeline.capture.token_keys import SigningKey
    from perf_pipeline.capture.token_source import TokenSource
    from perf_pipeline.plan import Plan

_PATH = click.Path(path_type=Path)


@click.command()
@click.option("--plan", "plan_path", type=_PATH, help="Plan with the retention section.  [default: the deployment's]")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
def prune(plan_path: Path | None, dry_run: bool) -> None:
    """Remove what is older than the plan keeps it: raw logs, requests, tokens, workloads, runs, reports.

    The captured hours that the plan's workload names stay; their tokens are blanked like all others.
    """
    from datetime import UTC, datetime

    from perf_pipeline.plan import load_plan
    from perf_pipeline.report.prune_table import render
    from perf_pipeline.retention import find_expired, prune
    from perf_pipeline.storage import open_store
    from perf_pipeline.warehouse import Warehouse

    settings = read_settings()
    store = open_store(settings.store)
    outlived = find_expired(store, load_plan(plan_path or settings.plan), datetime.now(UTC))
    Console().print(render(outlived, dry_run))
    if not dry_run:
        prune(store, Warehouse(settings.warehouse), outlived.expired)


@click.group()
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


@click.group()
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
