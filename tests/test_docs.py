"""What the pages promise is there: links lead somewhere, the plan of the nightly page is one, variables are listed."""

import re
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

from perf_pipeline.capture.access_log import NEEDED_KEYS, read_fields
from perf_pipeline.exits import WRONG_INPUT
from perf_pipeline.files import project_file
from perf_pipeline.plan import load_plan
from perf_pipeline.plan_operation import VersionSource

ROOT = project_file("README.md").parent
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
NIGHTLY = (ROOT / "docs" / "nightly.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith("http"):
            continue
        name, _, anchor = target.partition("#")
        place = (page.parent / name) if name else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), target


def test_the_plan_of_the_nightly_page_has_no_errors(tmp_path: Path) -> None:
    (text,) = [block for block in blocks(NIGHTLY, "yaml") if block.startswith("name:")]
    (tmp_path / "plan.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "capture.json").write_text("", encoding="utf-8")
    assert load_plan(tmp_path / "plan.yaml", with_files=True).name == "shop"


def test_the_version_sources_of_the_nightly_page_are_read() -> None:
    lines = re.findall(r"^version_source: (.+)$", NIGHTLY, re.MULTILINE)
    sources = [TypeAdapter(VersionSource).validate_python(yaml.safe_load(line)) for line in lines]
    assert [source.kind for source in sources] == ["manifest", "object", "command", "git_tags"]


def test_the_messages_of_the_nightly_page_are_those_that_are_said() -> None:
    rows = re.findall(r"^\| (.+?) \| .+ \| .+ \|$", NIGHTLY.partition("## When something fails")[2], re.MULTILINE)
    said = [message for row in rows for message in re.findall(r"\*([^*]+)\*", row)]
    assert len(said) >= 12
    files = [path for folder in ("perf_pipeline", "assets") for path in (ROOT / folder).rglob("*.py")]
    program = "\n".join(path.read_text(encoding="utf-8") for path in files)
    for part in [part.strip(" ,():") for message in said for part in re.split("…|500", message)]:
        assert part in program or part == "version" or part == "the file: Invalid JSON", part


def test_the_page_on_ci_says_how_a_backfill_ends() -> None:
    page = " ".join((ROOT / "docs" / "ci.md").read_text(encoding="utf-8").split())
    assert f"it ends with 0 whatever its verdicts say, and with {WRONG_INPUT} when one of its comparisons" in page
    assert page.count("`backfill`") == 1


def test_the_log_line_of_the_nightly_page_has_every_field() -> None:
    (line,) = re.findall(r"^\{\"v\".+$", NIGHTLY, re.MULTILINE)
    fields = read_fields(line.encode())
    assert isinstance(fields, dict)
    assert set(NEEDED_KEYS) <= set(fields)


def test_every_variable_that_is_read_is_listed() -> None:
    listed = (ROOT / ".env.example").read_text(encoding="utf-8")
    for module in [*(ROOT / "perf_pipeline").rglob("*.py"), *(ROOT / "assets").rglob("*.py")]:
        for name in re.findall(r"PERF_PIPELINE_[A-Z_]*[A-Z]", module.read_text(encoding="utf-8")):
            # Handed from one process of ours to the next, and no setting.
            assert name in listed or name == "PERF_PIPELINE_TERMINAL_FD", f"{module.name}: {name}"
