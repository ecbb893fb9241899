"""CPU throttling: read where a quota is, not measured where there is none."""

from pathlib import Path

import pytest

from perf_pipeline.lab.throttling import find_cpu_stat, read_cpu_stat

STAT = "nr_periods 120\nnr_throttled 7\nthrottled_time 5\n"


def machine(root: Path, cgroup: str, files: dict[str, str]) -> tuple[Path, Path]:
    (root / "proc/42").mkdir(parents=True)
    (root / "proc/42/cgroup").write_text(cgroup)
    for name, text in files.items():
        path = root / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root / "proc", root / "cgroup"


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/lab/run\n", {"lab/run/cpu.max": "50000 100000", "lab/run/cpu.stat": STAT}, "lab/run/cpu.stat"),
        ("0::/lab/run\n", {"lab/run/cpu.max": "max 100000", "lab/cpu.max": "50000 100000"}, "lab/cpu.stat"),
        ("0::/lab\n", {"lab/cpu.max": "max 100000"}, None),
        ("0::/\n", {}, None),
        ("3:cpu,cpuacct:/d\n1:name=systemd:/\n", {"cpu,cpuacct/d/cpu.cfs_quota_us": "20000"}, "cpu,cpuacct/d/cpu.stat"),
        ("3:cpuset:/d\n2:cpu:/docker/1\n", {"cpu/cpu.cfs_quota_us": "20000"}, "cpu/cpu.stat"),
        ("2:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1"}, None),
        ("2:cpuacct:/\n", {"cpu/cpu.cfs_quota_us": "5"}, None),
    ],
)
def test_the_innermost_group_with_a_quota_is_found(
    tmp_path: Path, cgroup: str, files: dict[str, str], expected: str | None
) -> None:
    proc, mounted = machine(tmp_path, cgroup, files)
    assert find_cpu_stat(42, proc, mounted) == (mounted / expected if expected else None)


def test_a_process_that_is_gone_has_none(tmp_path: Path) -> None:
    assert find_cpu_stat(42, tmp_path, tmp_path) is None


def test_counters_are_read_or_not_known(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text(STAT)
    assert read_cpu_stat(tmp_path / "cpu.stat") == (120, 7)
    (tmp_path / "cpu.stat").write_text("usage_usec 5\n")
    assert read_cpu_stat(tmp_path / "cpu.stat") is None
    assert read_cpu_stat(tmp_path / "other") is None
