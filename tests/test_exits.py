"""No error ends with 1, which says "regression"; each has one message that says what to do."""

import subprocess
import sys
from pathlib import Path

import pytest

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.exits import exit_code


def test_bad_input_says_its_problems(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(InputError(Problem("plan.yaml:3", "is wrong", "mend it"))) == 2
    assert capsys.readouterr().err == "plan.yaml:3: is wrong\n    -> mend it\n"


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError) as caught:
        (tmp_path / "none" / "file").write_text("")
    assert exit_code(caught.value) == 2
    said = capsys.readouterr().err
    assert str(tmp_path / "none" / "file") in said and "No such file" in said and "->" in said


def test_a_defect_is_one_line_and_keeps_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    try:
        raise ValueError("odd\nand more")
    except ValueError as error:
        assert exit_code(error) == 70
    said = capsys.readouterr().err
    (kept,) = tmp_path.glob("*.traceback")
    assert "ValueError: odd\n" in said and str(kept) in said and "Traceback" not in said
    assert "Traceback" in kept.read_text() and "and more" in kept.read_text()


def test_an_interruption_is_no_defect(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_a_reader_that_went_away_is_silent() -> None:
    code = (
        "import sys\nfrom perf_pipeline.exits import exit_code\nsys.exit(exit_code(BrokenPipeError(32, 'Broken pipe')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (141, "")
