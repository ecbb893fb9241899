"""Handing over to Dagster: the right code, the user's own settings kept, the places that the settings name."""

import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from perf_pipeline import orchestration
from perf_pipeline.errors import InputError
from perf_pipeline.orchestration import become_comparison_job, become_ui
from perf_pipeline.settings import Settings, read_settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return read_settings({"PERF_PIPELINE_HOME": str(tmp_path / "home")})


@pytest.fixture
def became(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """The command and the environment of each process that this one would have become."""
    calls: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda _program, command, environ: calls.append((command, environ)))
    monkeypatch.setattr(orchestration.signal, "signal", lambda *_: None)
    return calls


def test_code_is_never_taken_from_the_folder_that_the_user_stands_in(
    settings: Settings, became: list[tuple[list[str], dict[str, str]]]
) -> None:
    become_comparison_job(settings, "1.0__1.1", ["--json"])
    ((command, environ),) = became
    assert command == [sys.executable, "-P", "-m", "assets", "1.0__1.1", "--json"]
    assert environ["PYTHONSAFEPATH"] == "1"
    assert environ["DAGSTER_HOME"] == str(settings.dagster_home)


def test_dagster_settings_of_the_user_are_kept(
    settings: Settings, tmp_path: Path, became: list[tuple[list[str], dict[str, str]]]
) -> None:
    elsewhere = replace(settings, dagster_home=tmp_path / "state")
    become_comparison_job(elsewhere, "1.0__1.1", [])
    assert "pools:" in (tmp_path / "state/dagster.yaml").read_text()
    (tmp_path / "state/dagster.yaml").write_text("mine: 1\n")
    become_comparison_job(elsewhere, "1.0__1.1", [])
    assert (tmp_path / "state/dagster.yaml").read_text() == "mine: 1\n"
    assert [environ["DAGSTER_HOME"] for _, environ in became] == [str(tmp_path / "state")] * 2


def test_a_port_that_is_in_use_is_named(settings: Settings, became: list[tuple[list[str], dict[str, str]]]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port}: cannot be served on: Address already in use"):
            become_ui(settings, port)
    assert became == []
    become_ui(settings, port)
    command = became[0][0]
    assert command[-2:] == ["-p", str(port)]
    assert (Path(command[command.index("-d") + 1]) / "assets" / "definitions.py").is_file()
