"""The command line works from a wheel, outside of the checkout and with nothing of it on the path."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.recorded_runs import write_run

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as it would lie in site-packages; its dependencies are those of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(build, check=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run(unpacked: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # The checkout is on sys.path by its editable install; the wheel has to come before it.
    code = f"import sys; sys.path.insert(0, {str(unpacked)!r}); from perf_pipeline.cli import main; main(sys.argv[1:])"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=cwd,
        env=os.environ | {"PERF_PIPELINE_HOME": str(cwd / "home")},
        capture_output=True,
        text=True,
    )


def test_it_is_the_wheel_that_runs(unpacked: Path, tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(unpacked)!r}); import assets; print(assets.__file__)"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stdout.startswith(str(unpacked))


def test_judging_needs_nothing_of_the_checkout(unpacked: Path, tmp_path: Path) -> None:
    for version, slower in (("1.0.0", 1.0), ("2.0.0", 1.5)):
        for repeat in (1, 2, 3):
            write_run(tmp_path / "runs", f"{version}-browse-r{repeat:02d}", seed=repeat, slower=slower)
    arguments = ("judge", "runs", "--baseline", "1.0.0", "--candidate", "2.0.0", "--json", "--html", "report.html")
    result = run(unpacked, tmp_path, *arguments)
    assert result.returncode == 1, result.stderr
    assert json.loads(result.stdout)["decision"]["answer"] == "regression"
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_demo_travels_in_the_wheel(unpacked: Path, tmp_path: Path) -> None:
    files = unpacked / "perf_pipeline" / "_files"
    result = run(unpacked, tmp_path, "plan", "check", str(files / "examples" / "demo" / "plan.yaml"))
    assert result.returncode == 0, result.stderr
    assert (files / "sql" / "tables" / "run.sql").is_file() and (files / "dagster.yaml").is_file()
    assert not list(unpacked.rglob("*.pyc"))
    refused = run(unpacked, tmp_path, "demo", "--candidate", "9")
    assert refused.returncode == 2 and "unknown version 9" in refused.stderr


def test_the_manifests_travel_in_the_wheel_with_what_they_name(unpacked: Path, tmp_path: Path) -> None:
    ask = f"import sys; sys.path.insert(0, {str(unpacked)!r}); from perf_pipeline.files import project_file; "
    command = [sys.executable, "-c", ask + "print(project_file('k8s'))"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    manifests = Path(said.strip())
    assert manifests.is_relative_to(unpacked)
    there = {path.relative_to(manifests) for path in manifests.rglob("*") if path.is_file()}
    assert there == {path.relative_to(ROOT / "k8s") for path in (ROOT / "k8s").rglob("*") if path.is_file()}
    for kustomization in manifests.rglob("kustomization.yaml"):
        named = yaml.safe_load(kustomization.read_text())["resources"]
        assert named and all((kustomization.parent / resource).exists() for resource in named)
