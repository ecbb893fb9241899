"""The reader against the k6 that is installed: the rows of the hold are those that the script started or dropped."""

import gzip
import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from perf_pipeline.lab.run_directory import Hold
from perf_pipeline.metrics.k6_samples import read_k6_samples

FIXTURES = Path(__file__).parents[1] / "fixtures" / "k6"


@pytest.fixture(scope="module")
def make() -> ModuleType:
    """The script that made the fixtures, which says how k6 is run on them."""
    spec = importlib.util.spec_from_file_location("make_k6_fixtures", FIXTURES / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.integration
@pytest.mark.parametrize("name", ["restricted-micro.csv.gz", "extra-tags-rfc3339.csv.gz"])
def test_what_k6_writes_today_is_read(make: ModuleType, tmp_path: Path, name: str) -> None:
    k6 = shutil.which("k6") or shutil.which("k6", path=Path(sys.executable).parent)
    if not k6:
        pytest.skip("k6 is not installed")
    time_format, flags = make.FILES[name]
    server = make.serve()
    try:
        make.run_k6(Path(k6), server.server_port, tmp_path / name, time_format, flags)
    finally:
        server.shutdown()
        server.server_close()
    with gzip.open(tmp_path / name, "rt") as file:
        start_s = float(next(line for line in file if line.startswith("hold_start,")).split(",")[2]) / 1000
    samples = read_k6_samples(tmp_path / name, Hold(start=start_s, end=start_s + 3), 1.0, 3)
    assert samples.hold_start_s == start_s
    # 50 a second for 3 s; a k6 that is held up near the end starts no more, and calls none of that dropped.
    assert 130 <= samples.requests + samples.dropped_iterations <= 155
    assert samples.dropped_iterations > 20
    assert samples.failed > 0
    assert samples.latency.over().requests == samples.requests - samples.failed
    assert samples.latency.counts.sum(axis=1).min() > 0
