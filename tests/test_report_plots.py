"""What the pictures of verdicts show."""

import math
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from perf_pipeline.report.picture import Area, Dot, Label
from perf_pipeline.report.plots import interval_mark, mark_reach, percentile_shift
from perf_pipeline.report.scale import LETTER_PX, Axis, ticks_that_fit
from tests.report_judgements import distribution, not_comparable, number, regression, smooth_step

SHIFTED = distribution("browse", "client_latency", 4.0, lambda p: 0.21 * smooth_step(p, 35, 80), 0.011)


def texts(picture_shapes: tuple[object, ...]) -> list[str]:
    return [shape.text for shape in picture_shapes if isinstance(shape, Label)]


def test_the_title_is_the_finding_and_axes_have_units() -> None:
    picture = percentile_shift(SHIFTED)
    assert picture.title.startswith("Regression. Slower: +21.1 %")
    found = texts(picture.shapes)
    assert {"zone", "+10 %", "−9.1 %", "p80: +21.1 %", "p5", "p99", "↑ slower"} <= set(found)
    assert "percentile of requests (fastest → slowest)" in found
    assert any(text.endswith("%") and text.startswith("+20") for text in found)


def test_the_words_for_it_give_numbers() -> None:
    assert "p50 +5.3 %" in percentile_shift(SHIFTED).description
    assert "Zone −9.1 % to +10 %" in percentile_shift(SHIFTED).description


def test_slower_is_up_and_the_intervals_lie_in_the_band() -> None:
    areas = {
        shape.role: shape
        for shape in percentile_shift(SHIFTED).shapes
        if isinstance(shape, Area) and len(shape.points) > 4
    }
    dots = [shape for shape in percentile_shift(SHIFTED).shapes if isinstance(shape, Dot)][1:]
    assert dots[-1].centre[1] < dots[0].centre[1]
    for (x, inner), (same_x, outer) in zip(areas["interval"].points, areas["band"].points, strict=True):
        assert x == same_x
        place = next(number for number, dot in enumerate(dots) if dot.centre[0] == x)
        middle = dots[place].centre[1]
        assert abs(outer - middle) >= abs(inner - middle)


def test_a_dot_is_filled_where_the_percentile_is_settled() -> None:
    dots = [shape for shape in percentile_shift(SHIFTED).shapes if isinstance(shape, Dot)][1:]
    roles = {point.p: dot.role for point, dot in zip(SHIFTED.percentiles, dots, strict=True)}
    assert roles[5.0] == "dot", "inside the zone"
    assert roles[80.0] == "dot", "the band is beyond the zone"
    assert roles[55.0] == "open", "crosses an edge"


def test_a_verdict_without_percentiles_says_so() -> None:
    picture = percentile_shift(not_comparable(SHIFTED, "Repeats disagree."))
    assert picture.title == "Not comparable. Repeats disagree."
    assert texts(picture.shapes) == ["nothing to compare"]


def test_a_wild_band_does_not_squeeze_the_rest() -> None:
    wild = replace(SHIFTED, percentiles=tuple(replace(point, band_high=40.0) for point in SHIFTED.percentiles))
    (zone,) = [shape for shape in percentile_shift(wild).shapes if isinstance(shape, Area) and shape.role == "zone"]
    heights = [y for _, y in zone.points]
    assert max(heights) - min(heights) > 30


def test_a_band_beyond_the_scale_says_how_far_it_reaches() -> None:
    wild = replace(SHIFTED, percentiles=tuple(replace(point, band_high=40.0) for point in SHIFTED.percentiles))
    assert "band to +4000.0 % ↑" in texts(percentile_shift(wild).shapes)
    assert not [text for text in texts(percentile_shift(SHIFTED).shapes) if text.startswith("band to")]


def test_the_labels_of_a_thin_zone_stand_apart() -> None:
    steep = distribution("browse", "client_latency", 4.0, lambda p: 9.0 * smooth_step(p, 35, 80), 0.011)
    labels = {
        shape.text: shape.at[1]
        for shape in percentile_shift(steep).shapes
        if isinstance(shape, Label) and shape.text in ("+10 %", "zone", "−9.1 %")
    }
    assert labels["+10 %"] + 14 < labels["zone"] < labels["−9.1 %"] - 14


def test_a_mark_that_cannot_reach_its_change_is_an_arrow() -> None:
    far = number("s", "service_p99", 10.0, 0.9, 0.02, "ms")
    shapes = interval_mark(far, 0.3).shapes
    assert not [shape for shape in shapes if isinstance(shape, Dot)]
    (arrow,) = [shape for shape in shapes if isinstance(shape, Area) and shape.role == "dot"]
    assert arrow.points[0][0] == 95


def test_marks_of_one_metric_share_their_scale() -> None:
    verdicts = [verdict for verdict in regression().verdicts if verdict.metric == "service_p99"]
    reach = mark_reach(verdicts)
    assert reach >= max(verdict.high or 0 for verdict in verdicts)
    (dot,) = [shape for shape in interval_mark(verdicts[0], reach).shapes if isinstance(shape, Dot)]
    assert dot.centre[0] > 48, "worse is to the right"


def test_an_inconclusive_mark_is_hollow() -> None:
    verdict = number("s", "service_p99", 10.0, 0.03, 0.02, "ms")
    assert [shape.role for shape in interval_mark(verdict, 0.3).shapes if isinstance(shape, Dot)] == ["open"]


@given(st.floats(-50, 50), st.floats(1e-6, 100))
def test_ticks_are_round_few_and_inside(low: float, width: float) -> None:
    axis = Axis(low, low + width, 0, 100)
    ticks = axis.ticks(6, "client_latency")
    assert len(ticks) <= 7
    assert len({text for _, text in ticks}) == len(ticks), "ticks can be told apart"
    for value, _ in ticks:
        assert low - 1e-9 * max(1, abs(low)) <= value <= low + width + 1e-9 * max(1, abs(low))


def test_a_scale_ends_where_it_ends() -> None:
    axis = Axis(-1, 1, 0, 100)
    assert (axis(-math.inf), axis(0), axis(math.inf)) == (0, 50, 100)
    assert Axis(-1e308, 1.7e308, 0, 100)(1e308) == 0, "a scale that overflows"


@given(st.floats(-5, 0), st.floats(0.001, 50), st.integers(60, 400))
def test_ticks_of_a_lying_axis_never_overlap(low: float, width: float, pixels: int) -> None:
    axis = Axis(low, low + width, 0, pixels)
    ticks = ticks_that_fit(axis, "client_latency")
    for (left, text), (right, _) in pairwise(ticks):
        assert axis(right) - axis(left) > LETTER_PX * len(text) or len(ticks) <= 2
