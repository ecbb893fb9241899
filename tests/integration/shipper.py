"""rsyslog with the configuration of examples/capture, shipping the log of a test's nginx to a real broker."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perf_pipeline.lab.programs import Program, Programs

CONFIGURATION = Path(__file__).parents[2] / "examples/capture/shippers/rsyslog.conf"
_PLUGIN = "omkafka.so"
_LIBRARIES = Path("/usr/lib")


def need_shipper() -> None:
    """Skip, loudly, where rsyslog cannot ship to Kafka."""
    if rsyslogd() is None or next(_LIBRARIES.rglob(f"rsyslog/{_PLUGIN}"), None) is None:
        pytest.skip(
            "rsyslog with its Kafka output not found: shipping was NOT tested (apt-get install rsyslog rsyslog-kafka)"
        )


def rsyslogd() -> str | None:
    """The program; it stands in a folder that is on root's PATH only."""
    return shutil.which("rsyslogd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@dataclass
class Shipper:
    """rsyslog that can be stopped and started; its place in the log and what waits are in its folder."""

    programs: Programs
    folder: Path
    files: Path
    bootstrap: str
    topic: str
    program: Program | None = field(default=None)

    def start(self) -> None:
        """Start it; it reads on where it was."""
        self.folder.mkdir(parents=True, exist_ok=True)
        variables = os.environ | {
            "CAPTURE_FILES": str(self.files),
            "CAPTURE_STATE": str(self.folder),
            "CAPTURE_BROKERS": self.bootstrap,
            "CAPTURE_TOPIC": self.topic,
        }
        command = [rsyslogd() or "rsyslogd", "-n", "-f", str(CONFIGURATION), "-i", str(self.folder / "rsyslog.pid")]
        self.program = self.programs.start("rsyslog", command, variables, self.folder / "rsyslog.log", self.folder)

    def stop(self) -> None:
        """Stop it in good order: what is read is delivered, or waits on disk."""
        if self.program is not None:
            self.programs.end(self.program, grace_s=25)
            self.program = None


@contextmanager
def shipping(programs: Programs, folder: Path, files: Path, bootstrap: str, topic: str) -> Iterator[Shipper]:
    """A shipper that runs until the block is left."""
    need_shipper()
    shipper = Shipper(programs, folder, files, bootstrap, topic)
    shipper.start()
    try:
        yield shipper
    finally:
        shipper.stop()
