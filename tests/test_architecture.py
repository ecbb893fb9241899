"""The house rules that a machine can hold: which way imports go, what a gate may know, how long a module is."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = sorted((ROOT / "perf_pipeline").rglob("*.py"))
ASSETS = sorted((ROOT / "assets").rglob("*.py"))

# From the ground up: a module may import what stands on its own floor or below.
FLOORS = (
    {"errors", "exits", "files", "process_start"},
    {"half_written"},
    {"progress", "settings", "yaml_model", "storage", "bucket", "notify"},
    {"plan_base", "plan_metrics", "plan_operation", "plan_tokens"},
    {"plan", "plan_rules", "warehouse"},
    {"version_source", "deploys"},
    {"capture"},
    {"replay"},
    {"lab"},
    {"gates"},
    {"metrics"},
    {"campaigns"},
    {"judge", "retention", "history", "simulation"},
    {"policy_diff"},
    {"report"},
    {"cli", "cli_plan", "cli_upkeep", "orchestration"},
)
PURE_STANDARD = {"abc", "bisect", "collections", "dataclasses", "enum", "functools", "itertools", "math", "typing"}
GATES_MAY_IMPORT = {"numpy", "scipy", "statsmodels", "ruptures", "pydantic", "perf_pipeline"}


def floor(module: str) -> int:
    """The floor of a module such as `perf_pipeline.metrics.histogram`."""
    name = module.split(".")[1]
    return next(number for number, names in enumerate(FLOORS) if name in names)


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module or ""
            if node.module == "perf_pipeline":
                yield from (f"perf_pipeline.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_the_library_imports_downwards_and_never_dagster(path: Path) -> None:
    module = name_of(path)
    for imported in imports(path):
        assert imported.split(".")[0] not in {"dagster", "assets"}, f"{module} imports {imported}"
        if module.count(".") and imported.startswith("perf_pipeline."):
            assert floor(imported) <= floor(module), f"{module} imports {imported}, which stands above it"


@pytest.mark.parametrize("path", [path for path in LIBRARY if path.parent.name == "gates"], ids=name_of)
def test_gates_are_pure(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for imported in imports(path):
        package = imported.split(".")[0]
        standard = package in PURE_STANDARD
        assert standard or package in GATES_MAY_IMPORT, f"{name_of(path)} imports {imported}"
        assert not imported.startswith("perf_pipeline.") or imported.startswith("perf_pipeline.gates")
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not calls & {"open", "print", "input"}, f"{name_of(path)} reads or writes"


@pytest.mark.parametrize("path", [*LIBRARY, *ASSETS], ids=name_of)
def test_every_module_says_what_belongs_in_it_and_stays_short(path: Path) -> None:
    text = path.read_text()
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring
    limit = 150 if path in ASSETS else 400
    assert len(text.splitlines()) <= limit, f"{name_of(path)} is longer than {limit} lines: split it by meaning"


def test_nothing_is_called_utils() -> None:
    names = {path.stem for path in [*LIBRARY, *ASSETS]} | {path.parent.name for path in LIBRARY}
    assert not names & {"utils", "util", "helpers", "common", "manager", "misc"}
