"""k6: found, old, broken or absent; its flags by version; its exit codes in words."""

import os
import sys
import sysconfig
from pathlib import Path

import pytest

from perf_pipeline.errors import InputError
from perf_pipeline.replay.k6 import K6, explain_exit, find_k6, k6_command, k6_environment, read_hold_start


def stub(folder: Path, says: str, exit_code: int = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "k6"
    path.write_text(f"#!{sys.executable}\nimport sys\nprint({says!r})\nsys.exit({exit_code})\n")
    path.chmod(0o755)
    return path


def no_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _name: str(tmp_path / "scripts"))


def test_the_one_on_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_wheel(monkeypatch, tmp_path)
    stub(tmp_path / "scripts", "k6 v1.1.0 (commit/x, go1.24.4, linux/amd64)")
    path = stub(tmp_path / "bin", "k6 v2.3.1 (go1.26.0, linux/amd64)")
    assert find_k6({"PATH": str(tmp_path / "bin")}) == K6(path, (2, 3, 1), "found on PATH")
    assert find_k6({"PATH": str(tmp_path / "empty")}).version_text == "v1.1.0"
    assert "wheel" in find_k6({"PATH": str(tmp_path / "empty")}).source
    assert "wheel" in find_k6({"PATH": str(tmp_path / "scripts")}).source


def test_no_k6_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_wheel(monkeypatch, tmp_path)
    with pytest.raises(
        InputError, match=r"neither on PATH nor in this Python environment\n    -> install k6 .*pip install"
    ):
        find_k6({"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ("k6 v0.57.0 (go1.23, linux/amd64)", "is k6 v0.57.0, and k6 1.0 or newer is needed"),
        ("hello", "does not tell its version; `k6 version` says hello"),
        ("", r"does not tell its version; `k6 version` says nothing \(exit code 0\)"),
    ],
)
def test_a_k6_that_is_too_old_or_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, message: str
) -> None:
    no_wheel(monkeypatch, tmp_path)
    stub(tmp_path / "bin", says)
    with pytest.raises(InputError, match=message):
        find_k6({"PATH": str(tmp_path / "bin")})


def test_an_old_k6_that_hides_the_one_of_the_environment_is_to_leave_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_wheel(monkeypatch, tmp_path)
    stub(tmp_path / "bin", "k6 v0.49.0 (go1.21, linux/amd64)")
    stub(tmp_path / "scripts", "k6 v1.1.0 (commit/x, go1.24.4, linux/amd64)")
    with pytest.raises(InputError, match=rf"update it, or take {tmp_path}/bin off PATH"):
        find_k6({"PATH": str(tmp_path / "bin")})


def test_a_k6_that_does_not_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_wheel(monkeypatch, tmp_path)
    stub(tmp_path / "bin", "").write_bytes(b"\x7fELF nonsense")
    with pytest.raises(InputError, match="does not run"):
        find_k6({"PATH": str(tmp_path / "bin")})


@pytest.mark.parametrize(
    ("version", "flag", "unknown"),
    [
        ((1, 0, 0), "--no-summary", "--summary-mode=disabled"),
        ((1, 1, 0), "--no-summary", "--summary-mode=disabled"),
        ((1, 3, 0), "--summary-mode=disabled", "--no-summary"),
        ((2, 0, 0), "--summary-mode=disabled", "--no-summary"),
    ],
)
def test_flags_follow_the_version(version: tuple[int, int, int], flag: str, unknown: str) -> None:
    command = k6_command(K6(Path("/bin/k6"), version, "PATH"))
    assert flag in command
    assert unknown not in command
    assert command[command.index("--address") + 1] == ""
    assert command[command.index("--out") + 1] == "csv"
    assert {"--no-thresholds", "--no-usage-report"} < set(command)
    assert "url" not in command[command.index("--system-tags") + 1].split(",")
    assert not any("http-debug" in word for word in command)


def test_k6_sees_no_settings_that_were_made_for_other_tests(tmp_path: Path) -> None:
    environ = {"PATH": "/bin", "K6_VUS": "100", "K6_HTTP_DEBUG": "full", "HOME": "/home/x", "HTTP_PROXY": "http://p",
               "PERF_PIPELINE_TOKEN_KEY": "secret"}  # fmt: skip
    variables = k6_environment(tmp_path / "replay.json", Path("/run/k6.csv"), 1, environ)
    assert variables == {
        "PATH": "/bin",
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "K6_CSV_FILENAME": "/run/k6.csv",
        "K6_CSV_TIME_FORMAT": "unix_micro",
        "K6_CSV_SAVE_INTERVAL": "100ms",
        "K6_AUTO_EXTENSION_RESOLUTION": "false",
        "GOGC": "400",
        "REPLAY_CONFIG": str(tmp_path / "replay.json"),
        "GOMAXPROCS": "1",
    }
    assert "GOMAXPROCS" not in k6_environment(tmp_path / "replay.json", Path("/run/k6.csv"), None, dict(os.environ))


def test_exit_codes_are_read_and_not_guessed() -> None:
    assert explain_exit(0) is None
    words = {code: explain_exit(code) for code in (*range(97, 111), 255, 3, 137, -9, -15, -200)}
    assert len(set(words.values())) == len(words)
    assert words[107] == "k6 ended with exit code 107: the script threw an exception"
    assert words[-9] == "k6 was ended by SIGKILL"
    assert words[-200] == "k6 was ended by signal 200"
    assert "does not document" in str(words[3])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metric_name,timestamp,metric_value\nvus,1,2\nhold_start,5,1796019568252.000000\n", 1796019568.252),
        ("metric_value,metric_name,timestamp\n1.0,http_reqs,3\n", None),
        ("metric_name,metric_value\nhold_start,17960195682\n", 17960195.682),
        ("metric_name,timestamp,metric_value\nmy_hold_start,5,7\n", None),
        ("metric_name,timestamp,metric_value\nhold_start,5", None),
        ("metric_name,timestamp\nhold_start,5\n", None),
        ("hold_start,5,7\n", None),
        ("", None),
    ],
)
def test_the_start_of_the_hold_is_read_from_the_samples(tmp_path: Path, text: str, expected: float | None) -> None:
    path = tmp_path / "k6.csv"
    path.write_text(text)
    assert read_hold_start(path) == expected


def test_without_samples_there_was_no_hold(tmp_path: Path) -> None:
    assert read_hold_start(tmp_path / "k6.csv") is None
