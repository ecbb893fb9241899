"""Where the files that travel with the project are: SQL, manifests, examples, settings.

They stand at the top of the repository for people to read. In a wheel they travel under `perf_pipeline/_files`.
"""

import shutil
import sys
from pathlib import Path

_PACKAGE = Path(__file__).parent
_CHECKOUT = _PACKAGE.parent


def project_file(name: str) -> Path:
    """The path of a file or folder that travels with the project, such as `sql/schema.sql` or `examples/demo`.

    Raises FileNotFoundError when the installation does not hold it.
    """
    for root in (_PACKAGE / "_files", _CHECKOUT):
        path = root / name
        if path.exists():
            return path
    raise FileNotFoundError(f"{name} is not part of this installation of perf_pipeline")


def own_command() -> str:
    """What starts perf-pipeline in the user's shell: its name where PATH has it, else its path."""
    here = Path(sys.executable).with_name("perf-pipeline")
    if shutil.which("perf-pipeline") or not here.exists():
        return "perf-pipeline"
    return str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here)
