"""CPU throttling of a process, as Linux control groups tell it.

What belongs here: finding the control group with a CPU quota that a process runs under, version 2 or 1, and reading
its counters. Without a quota, and on macOS, there are none: that is "not measured", which is another answer than "not
throttled".
"""

from pathlib import Path

_PERIODS, _THROTTLED = "nr_periods", "nr_throttled"


def find_cpu_stat(pid: int, proc: Path = Path("/proc"), mounted: Path = Path("/sys/fs/cgroup")) -> Path | None:
    """The `cpu.stat` of the innermost control group with a CPU quota around a process; None when there is none."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            roots = [mounted]
        elif "cpu" in controllers.split(","):
            roots = [mounted / controllers, mounted / "cpu"]
        else:
            continue
        for root in roots:
            if (found := _innermost_with_quota(root, path)) is not None:
                return found
    return None


def read_cpu_stat(path: Path) -> tuple[int, int] | None:
    """Periods so far, and how many of them were throttled; None when the group is gone."""
    try:
        fields = dict(line.split(maxsplit=1) for line in path.read_text().splitlines())
        return int(fields[_PERIODS]), int(fields[_THROTTLED])
    except (OSError, KeyError, ValueError):
        return None


def _innermost_with_quota(root: Path, path: str) -> Path | None:
    # Inside a container the path may be the host's, which is not mounted here: then only the root is left to look at.
    group = root / path.lstrip("/")
    for folder in (group, *group.parents):
        if _has_quota(folder):
            return folder / "cpu.stat"
        if folder == root:
            break
    return None


def _has_quota(folder: Path) -> bool:
    try:
        return not (folder / "cpu.max").read_text().startswith("max")
    except OSError:
        pass
    try:
        return int((folder / "cpu.cfs_quota_us").read_text()) > 0
    except (OSError, ValueError):
        return False
