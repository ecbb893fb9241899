"""What this machine is: the part of an environment's identity that no plan decides.

What belongs here: reading names and versions of hardware and system. Two runs on machines that differ in one of them
must not be compared.
"""

import platform
import re
import subprocess
import sys
from pathlib import Path


def machine_identity() -> dict[str, str]:
    """Node, CPU model, kernel, operating system and Python, as text."""
    return {
        "node": platform.node(),
        "cpu_model": _cpu_model(),
        "machine": platform.machine(),
        "os": _operating_system(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    if sys.platform == "darwin":
        answer = subprocess.run(
            ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        return answer.stdout.strip() or platform.processor()
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor()


def _operating_system() -> str:
    if sys.platform == "darwin":
        return f"macOS {platform.mac_ver()[0]}"
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
