"""What many comparisons say together: which of it is told beside the newest decision."""

from dataclasses import replace

from perf_pipeline.report.drift import RECENT, drifts, lately
from tests.report_histories import chained, shifts

ROWS = [row for row in chained() if (row.scenario, row.metric) == ("browse", "client_latency")]


def test_a_direct_comparison_tells_what_the_sum_could_not() -> None:
    direct = replace(ROWS[-1], path="direct", steps=1)
    (line,) = drifts([*ROWS[:-1], replace(ROWS[-1], answer="inconclusive"), direct], (), ())
    assert line.words.startswith("over 12 releases since 1.0.0, measured directly: regression in browse, client")


def test_one_release_is_told_by_its_own_comparison() -> None:
    assert drifts([replace(ROWS[0], answer="regression")], (), ()) == []


def test_a_regression_of_an_earlier_release_is_over() -> None:
    """Latency that came back, and a cell that the newest chain does not have."""
    assert drifts([*ROWS[:-1], replace(ROWS[-1], answer="equivalent")], (), ()) == []
    newest = replace(ROWS[-1], metric="service_memory", answer="equivalent")
    assert drifts([*ROWS[:-1], newest], (), ()) == []


def test_the_worst_are_said_and_the_others_counted() -> None:
    rows = [replace(row, scenario=f"graph-{n}", estimate=0.12 + n / 100) for n in range(9) for row in ROWS[-2:]]
    rows.sort(key=lambda row: row.steps)
    lines = drifts(rows, shifts() * 5, {"1.5.0__1.6.0"})
    assert [line.words.split(",")[0][-7:] for line in lines[:3]] == ["graph-8", "graph-7", "graph-6"]
    assert lines[3].words == "over these releases: 6 more regressions"
    assert lines[-1].words == "2 more level shifts."
    assert len(lines) == 8


def test_the_lab_comes_before_the_candidates_and_colours_say_which_way() -> None:
    lab = shifts()[0]
    slower, faster = replace(lab, what="effect", estimate=0.3), replace(lab, what="effect", estimate=-0.2)
    lines = drifts((), [faster, slower, lab], {lab.comparison})
    assert [line.tone for line in lines] == ["inconclusive", "regression", "improvement"]


def test_lately_ends_with_the_comparison_that_is_told_of() -> None:
    newest_first = [f"a__{n}" for n in range(40, 0, -1)]
    assert lately(newest_first, "a__20") == {f"a__{n}" for n in range(20, 20 - RECENT, -1)}
    assert lately(newest_first, "gone") == lately(newest_first, "a__40")
    assert lately([], "a__1") == set()
