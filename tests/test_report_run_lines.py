"""How single runs are drawn."""

import math
from dataclasses import replace

from perf_pipeline.report.forest import number_picture
from perf_pipeline.report.picture import Dot, Label, Lines
from perf_pipeline.report.plots import percentile_shift
from perf_pipeline.report.run_curves import CellRuns, by_cell
from perf_pipeline.report.run_lines import level_picture, lines, run_changes
from perf_pipeline.report.scale import Axis
from tests.report_judgements import curves_for, regression

FOUND = regression()
CELLS = by_cell(curves_for(FOUND), FOUND)
LATENCY = FOUND.verdicts[0]
MEMORY = next(one for one in FOUND.verdicts if (one.scenario, one.metric) == ("products", "service_memory"))
VERSIONS = ("1.0.0", "1.1.0")


def of(verdict: object) -> CellRuns:
    return CELLS[verdict.scenario, verdict.metric]  # type: ignore[attr-defined]


def drawn(shapes: tuple[object, ...]) -> dict[str, Lines]:
    return {shape.role: shape for shape in shapes if isinstance(shape, Lines)}


def test_each_run_is_a_line_and_the_baseline_scatters_around_no_change() -> None:
    picture = percentile_shift(LATENCY, of(LATENCY))
    found = drawn(picture.shapes)
    assert {role: len(shape.lines) for role, shape in found.items()} == {"run-baseline": 5, "run-candidate": 5}
    (zero,) = [shape.points[0][1] for shape in picture.shapes if getattr(shape, "role", "") == "zero"]
    heights = [points[0][1] for points in found["run-baseline"].lines]
    assert min(heights) < zero < max(heights)
    last = [points[-1][1] for points in found["run-candidate"].lines]
    assert max(last) < zero, "slower is up"


def test_the_scale_reaches_a_run_that_strays_a_little_and_says_how_far_another_lies() -> None:
    runs = of(LATENCY)

    def with_first(factor: float) -> CellRuns:
        first = replace(runs.candidate[0], percentiles=tuple(value * factor for value in runs.candidate[0].percentiles))
        return replace(runs, candidate=(first, *runs.candidate[1:]))

    near = percentile_shift(LATENCY, with_first(1.1))
    assert len(drawn(near.shapes)["run-candidate"].lines) == 5
    far = percentile_shift(LATENCY, with_first(9.0))
    assert len(drawn(far.shapes)["run-candidate"].lines) == 4
    texts = [shape.text for shape in far.shapes if isinstance(shape, Label)]
    assert [text for text in texts if text.startswith("a run to +") and text.endswith("↑")]


def test_a_curve_ends_where_it_leaves_the_scale_and_goes_over_what_is_not_known() -> None:
    y = Axis(-1, 1, 100, 0)
    (shape,) = lines("run-baseline", [[0, math.nan, 0.5, 5, 0.2, 0.1]], range(6), y, None)
    assert isinstance(shape, Lines)
    assert [[x for x, _ in part] for part in shape.lines] == [[0, 2], [4, 5]]
    assert lines("run-baseline", [[5, 5]], range(2), y, None) == []


def test_a_number_shows_a_dot_for_each_run() -> None:
    picture = number_picture(MEMORY, of(MEMORY), VERSIONS)
    dots = [shape for shape in picture.shapes if isinstance(shape, Dot)]
    assert len(dots) == 1 + 5 + 4 + 1
    texts = [shape.text for shape in picture.shapes if isinstance(shape, Label)]
    assert {"change", "1.0.0", "1.1.0", "left out", "5 runs", "4 runs", "1 run"} <= set(texts)
    assert number_picture(MEMORY, CellRuns(), VERSIONS).height < picture.height


def test_error_rates_change_by_a_difference() -> None:
    verdict = next(one for one in FOUND.verdicts if one.metric == "http_error_rate")
    assert verdict.baseline_value
    changes = run_changes(verdict, of(verdict).baseline)
    assert all(abs(value) < 0.001 for value in changes)
    assert run_changes(replace(verdict, baseline_value=None), of(verdict).baseline) == []


def test_the_level_of_each_run_is_drawn_over_its_hold() -> None:
    picture = level_picture(MEMORY, of(MEMORY))
    assert picture
    found = drawn(picture.shapes)
    (climbs,) = found["run-left-out"].lines
    assert climbs[-1][1] < climbs[0][1], "memory that climbs goes up"
    assert "1 run left out between" in picture.description
    assert "20 s" in [shape.text for shape in picture.shapes if isinstance(shape, Label)]


def test_without_levels_there_is_no_picture_of_them() -> None:
    assert level_picture(MEMORY, CellRuns()) is None
    bare = tuple(replace(run, levels=()) for run in of(MEMORY).baseline)
    assert level_picture(MEMORY, CellRuns(bare)) is None
