"""What all releases changed together, as pictures."""

from dataclasses import replace
from itertools import pairwise

from perf_pipeline.report.chain_pictures import CHAINS_DRAWN, chain_picture, chains_of, worst_chains
from perf_pipeline.report.picture import Dot, Label
from tests.report_histories import NIGHTS, chained

ROWS = chained()
CHAINS = chains_of(ROWS)


def test_a_chain_is_one_scenario_and_metric_release_by_release() -> None:
    assert len(CHAINS) == 4
    assert [step.to_version for step in CHAINS[0].steps] == [f"1.{number}.0" for number in range(1, NIGHTS + 1)]
    assert chains_of([]) == []


def test_of_a_release_that_was_reached_twice_the_later_row_counts() -> None:
    again = replace(ROWS[0], estimate=0.5)
    first = chains_of([*ROWS, again])[0]
    assert first.steps[-1] == again
    assert len(first.steps) == NIGHTS


def test_a_chain_from_another_start_is_another_chain() -> None:
    other = replace(ROWS[0], from_version="0.9.0")
    assert len(chains_of([other, *ROWS])[0].steps) == NIGHTS
    assert len(chains_of([*ROWS, other])) == 1


def test_what_needs_attention_is_drawn_first_and_one_release_is_no_chain() -> None:
    drawn = worst_chains(CHAINS)
    assert [chain.steps[-1].answer for chain in drawn] == ["regression", "regression", "equivalent", "equivalent"]
    assert worst_chains(chains_of(ROWS[:4])) == []
    assert len(worst_chains([CHAINS[0]] * 20)) == CHAINS_DRAWN


def test_a_worse_release_stands_higher_and_is_filled_where_it_is_an_answer() -> None:
    picture = chain_picture(CHAINS[0])
    dots = [shape for shape in picture.shapes if isinstance(shape, Dot)]
    assert len(dots) == NIGHTS
    assert all(later.centre[1] < earlier.centre[1] for earlier, later in pairwise(dots))
    answers = [step.answer for step in CHAINS[0].steps]
    assert [dot.role for dot in dots] == ["open" if answer == "inconclusive" else "dot" for answer in answers]
    assert picture.title == "Regression over 12 comparisons: +14.4 % (+12.3 % to +16.5 %)."
    assert "1.4.0 equivalent" in picture.description


def test_labels_of_releases_never_overlap() -> None:
    labels = [shape for shape in chain_picture(CHAINS[0]).shapes if isinstance(shape, Label) and shape.text[:2] == "1."]
    places = sorted(label.at[0] for label in labels)
    assert all(later - earlier > 50 for earlier, later in pairwise(places))


def test_what_was_measured_directly_stands_beside_what_was_added_up() -> None:
    direct = replace(ROWS[-4], path="direct", steps=1, estimate=0.12, low=0.11, high=0.13)
    (chain,) = [chain for chain in chains_of([*ROWS, direct]) if chain.direct]
    picture = chain_picture(chain)
    assert len([shape for shape in picture.shapes if isinstance(shape, Dot)]) == NIGHTS + 1
    assert "measured directly regression: +12.0 %" in picture.description


def test_a_broken_chain_says_why() -> None:
    broken = replace(ROWS[-4], answer="not comparable", reason="1 of 12 steps did not compare it", estimate=None)
    (chain,) = [chain for chain in chains_of([*ROWS, broken]) if chain.steps[-1] == broken]
    picture = chain_picture(chain)
    assert picture.title == "Not comparable over 12 comparisons, 1 of 12 steps did not compare it."
    assert len([shape for shape in picture.shapes if isinstance(shape, Dot)]) == NIGHTS - 1
