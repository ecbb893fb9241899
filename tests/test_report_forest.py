"""Pictures that hold intervals below each other."""

import pytest

from perf_pipeline.report.forest import forest, pooled_forest
from perf_pipeline.report.picture import Area, Dot, Label, Stroke
from tests.report_judgements import many_scenarios, not_comparable, number, regression

FOUND = regression()
P99 = [verdict for verdict in FOUND.verdicts if verdict.metric == "service_p99"]
POOLED_P99 = [item for item in FOUND.pooled if item.metric == "service_p99"]


def texts(picture_shapes: tuple[object, ...]) -> list[str]:
    return [shape.text for shape in picture_shapes if isinstance(shape, Label)]


def test_the_title_counts_the_verdicts() -> None:
    picture = forest(P99, POOLED_P99)
    assert (picture.subject, picture.title) == ("service p99 over 2 scenarios", "2 regressions.")
    assert {"browse", "products", "pooled", "+23.5 %", "zone", "change in % (slower →)"} <= set(texts(picture.shapes))


def test_one_verdict_alone_is_told_by_its_title() -> None:
    picture = forest(P99[:1])
    assert picture.title == "Regression. Slower: +23.5 % [+18.8, +28.5], beyond the zone."
    assert "browse" not in texts(picture.shapes)


def test_what_is_not_comparable_keeps_its_row_without_a_mark() -> None:
    picture = forest([P99[0], not_comparable(P99[1], "Repeats disagree.")])
    assert picture.title == "1 regression, 1 not comparable."
    assert len([shape for shape in picture.shapes if isinstance(shape, Dot)]) == 1
    assert "–" in texts(picture.shapes)


def test_a_larger_change_stands_further_right_and_on_its_interval() -> None:
    picture = forest(P99)
    first, second = [shape for shape in picture.shapes if isinstance(shape, Dot)]
    assert first.centre[0] > second.centre[0]
    line = next(shape for shape in picture.shapes if isinstance(shape, Stroke) and shape.role == "line")
    assert line.points[0][0] < first.centre[0] < line.points[1][0]


def test_the_scale_reaches_a_change_of_many_zones() -> None:
    picture = forest([number("s", "service_p99", 10.0, 0.966, 0.02, "ms"), P99[0]])
    dots = [shape for shape in picture.shapes if isinstance(shape, Dot)]
    ticks = [shape for shape in picture.shapes if isinstance(shape, Label) and shape.text.startswith("+50")]
    assert dots[0].centre[0] > ticks[0].at[0] > dots[1].centre[0]


def test_what_lies_beyond_the_scale_is_an_arrow_with_its_number() -> None:
    far = number("s", "service_p99", 10.0, 30.0, 0.02, "ms")
    picture = forest([far])
    assert not [shape for shape in picture.shapes if isinstance(shape, Dot)]
    (arrow,) = [shape for shape in picture.shapes if isinstance(shape, Area) and shape.role == "dot"]
    assert max(x for x, _ in arrow.points) == arrow.points[0][0], "its tip looks to the worse side"
    assert "+3,000.0 %" in [text.replace("3000", "3,000") for text in texts(picture.shapes)]
    heads = [shape for shape in picture.shapes if isinstance(shape, Stroke) and len(shape.points) == 3]
    assert len(heads) == 2, "both ends of the interval lie beyond too"


def test_fifty_scenarios_stay_within_the_width_and_names_are_cut() -> None:
    verdicts = [verdict for verdict in many_scenarios().verdicts if verdict.metric == "service_p99"]
    picture = forest(verdicts)
    assert picture.height < 1500
    assert all(len(text) <= 40 for text in texts(picture.shapes))
    assert all(0 <= shape.centre[0] <= picture.width for shape in picture.shapes if isinstance(shape, Dot))


def test_pooled_changes_stand_beside_their_worst_scenario() -> None:
    pooled = [item for item in FOUND.pooled if item.metric not in ("http_error_rate",)]
    picture = pooled_forest(pooled, FOUND.verdicts)
    assert picture.title == "Largest on average: service p99, +19.9 %."
    assert "○ worst scenario" in picture.subject
    assert len([shape for shape in picture.shapes if isinstance(shape, Dot) and shape.role == "open"]) == len(pooled)
    assert "worst scenario browse +23.5 %" in picture.description


def test_units_and_metrics_are_never_mixed() -> None:
    with pytest.raises(ValueError, match="one unit"):
        pooled_forest(FOUND.pooled, FOUND.verdicts)
    with pytest.raises(ValueError, match="one metric"):
        forest(FOUND.verdicts)
    with pytest.raises(ValueError, match="one metric"):
        forest([])
