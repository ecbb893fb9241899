"""Handing over to Dagster: this process becomes the one that materialises, or that serves the UI.

What belongs here: the environment that Dagster needs, and starting it. The process is replaced rather than joined by a
child, so that Ctrl-C and SIGTERM reach the one that measures and no other has to pass them on. The library itself never
imports Dagster; the code location `assets` does.
"""

import os
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.files import project_file
from perf_pipeline.progress import TERMINAL_VARIABLE
from perf_pipeline.settings import Settings

_BESIDE_US = str(Path(__file__).parents[1])
"""Where the code location is installed. Dagster would look in the folder that the user stands in first."""


def become_comparison_job(settings: Settings, comparison: str, flags: Sequence[str]) -> NoReturn:
    """Materialise a comparison and the captured hours that it needs, then print its verdict.

    `flags` are those of `assets.materialize`. Progress is drawn on the terminal that stderr is now.
    """
    _become(settings, ["-m", "assets", comparison, *flags], _terminal())


def become_backfill(
    settings: Settings, comparisons: Sequence[str], first: str | None, last: str | None, judge_only: bool
) -> NoReturn:
    """Materialise these comparisons, or all that are known from `first` to `last`; one that fails stops no other.

    With `judge_only` nothing is measured: the stored metrics are judged again.
    """
    ends = [*(["--from", first] if first else []), *(["--to", last] if last else [])]
    flags = [*ends, *(["--judge-only"] if judge_only else [])]
    _become(settings, ["-m", "assets.backfill", *flags, "--", *comparisons], _terminal())


def become_ui(settings: Settings, port: int) -> NoReturn:
    """Serve the Dagster UI on localhost until it is stopped.

    Raises InputError when the webserver is not installed or the port is in use.
    """
    if find_spec("dagster_webserver") is None:
        raise InputError(Problem("dagster-webserver", "is not installed", "pip install dagster-webserver"))
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            what = f"cannot be served on: {error.strerror}"
            raise InputError(Problem(f"port {port}", what, "perf-pipeline ui --port with another one")) from error
    _become(
        settings,
        ["-m", "dagster", "dev", "-m", "assets.definitions", "-d", _BESIDE_US, "-h", "127.0.0.1", "-p", str(port)],
        {"PYTHONWARNINGS": "ignore::FutureWarning"},  # `dagster dev` says that `dg dev` follows it
    )


def _terminal() -> dict[str, str]:
    """The variable that hands the terminal that stderr is now on to where progress is drawn."""
    terminal = os.dup(2)
    os.set_inheritable(terminal, True)
    return {TERMINAL_VARIABLE: str(terminal)}


def _become(settings: Settings, arguments: list[str], variables: dict[str, str]) -> NoReturn:
    """Replace this process by Python with the arguments, in the environment that the settings describe."""
    settings.dagster_home.mkdir(parents=True, exist_ok=True)
    if not (settings.dagster_home / "dagster.yaml").exists():  # else it is the user's, who may have changed it
        shutil.copyfile(project_file("dagster.yaml"), settings.dagster_home / "dagster.yaml")
    places = {
        "DAGSTER_HOME": str(settings.dagster_home),
        "PERF_PIPELINE_HOME": str(settings.home),
        "PERF_PIPELINE_PLAN": str(settings.plan),
        "PERF_PIPELINE_STORE": settings.store,
        "PERF_PIPELINE_WAREHOUSE": str(settings.warehouse),
        "PERF_PIPELINE_TOKEN_KEY_FILE": str(settings.token_key_file),
        **({"PERF_PIPELINE_POLICY": settings.policy} if settings.policy else {}),
    }
    # Only what is installed is imported, here and in children: a folder `assets` of the user's is another one.
    places["PYTHONSAFEPATH"] = "1"
    # A shell starts background jobs with SIGINT ignored, and Dagster lets SIGTERM do what SIGINT does: such a job could
    # not be stopped. The default survives the exec, a handler would not.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-P", *arguments], os.environ | places | variables)  # noqa: S606  no shell is meant
