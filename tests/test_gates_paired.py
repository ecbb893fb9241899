from dataclasses import replace

import numpy as np
import pytest

from perf_pipeline.gates.evidence import Design, LatencySample, NumberSample, RunEvidence
from perf_pipeline.gates.findings import Verdict
from perf_pipeline.gates.paired import pairs
from perf_pipeline.gates.policy import Policy
from perf_pipeline.gates.verdict import judge
from tests.simulated_runs import campaign, policy


def in_blocks(runs: list[RunEvidence], seed: int, block_cv: float, paired: bool = True) -> list[RunEvidence]:
    """The runs with a disturbance that both versions of a block share, in every metric that has a level."""
    rng = np.random.default_rng(seed)
    shift = {block: block_cv * rng.normal() for block in sorted({run.block for run in runs})}

    def disturbed(run: RunEvidence) -> RunEvidence:
        more = shift[run.block]
        metrics = {
            metric: replace(sample, log_quantiles=sample.log_quantiles + more, shape=sample.shape + more)
            if isinstance(sample, LatencySample)
            else replace(sample, value=sample.value * np.exp(more))
            if isinstance(sample, NumberSample)
            else sample
            for metric, sample in run.metrics.items()
        }
        return replace(run, metrics=metrics, design=Design(paired=paired))

    return [disturbed(run) for run in runs]


def verdict_of(runs: list[RunEvidence], metric: str = "client_latency", limits: Policy | None = None) -> Verdict:
    judgement = judge(runs, "1.0", "1.1", limits or policy())
    return next(one for one in judgement.verdicts if one.metric == metric)


def test_a_disturbance_of_whole_blocks_drops_out_of_pairs_only() -> None:
    runs = campaign(3, scenarios=["browse"], repeats=8, run_cv=0.01)
    paired, unpaired = (verdict_of(in_blocks(runs, 2, 0.06, how)) for how in (True, False))
    assert (paired.paired, paired.verdict) == (True, "equivalent")
    assert (unpaired.paired, unpaired.verdict) == (False, "inconclusive")
    assert paired.df is not None
    assert paired.df == pytest.approx(7)
    assert (paired.baseline_repeats, paired.candidate_repeats) == (8, 8)
    assert paired.percentiles[0].band_low < paired.percentiles[0].low


def test_the_data_never_decide_on_pairing() -> None:
    runs = in_blocks(campaign(3, scenarios=["browse"], repeats=8, run_cv=0.01), 2, 0.06)
    mixed = [replace(runs[0], design=None), *runs[1:]]
    assert not verdict_of(mixed).paired
    assert not verdict_of(runs, limits=policy(change__paired="never")).paired


def test_a_run_without_its_partner_is_left_out() -> None:
    runs = in_blocks(campaign(3, scenarios=["browse"], repeats=8, run_cv=0.01), 2, 0.06)
    lost = [replace(run, failure="died") if run.run_id == "1.1-browse-r02" else run for run in runs]
    verdict = verdict_of(lost)
    assert (verdict.baseline_repeats, verdict.candidate_repeats) == (7, 7)


def test_blocks_that_nowhere_hold_both_versions_cannot_be_compared_and_say_so() -> None:
    runs = in_blocks(campaign(3, scenarios=["browse"]), 2, 0.06)
    apart = [replace(run, block=run.block + 10 * (run.version == "1.1")) for run in runs]
    verdict = verdict_of(apart)
    assert verdict.verdict == "not comparable"
    assert verdict.reason == "0 blocks with a usable run of each version, 2 are needed to compare pairs"
    assert verdict.open_to_repeats
    assert verdict_of(apart, "http_error_rate").verdict == "equivalent"


def test_pairs_hold_one_run_of_each_side_in_the_order_of_blocks() -> None:
    number = NumberSample(1.0, np.ones(4), 1.0)
    baseline = [(f"b{block}", number) for block in (3, 1, 2, 5)]
    candidate = [(f"c{block}", number) for block in (1, 2, 4, 3)]
    blocks = {run_id: int(run_id[1]) for run_id, _ in (*baseline, *candidate)} | {"b5": 2}
    kept = pairs(baseline, candidate, blocks)
    assert [[run_id for run_id, _ in side] for side in kept] == [["b1", "b3"], ["c1", "c3"]]


def test_paired_intervals_and_bands_miss_as_rarely_as_they_say() -> None:
    """Five blocks, whose disturbance is three times as large as that of a run; no moderation among two scenarios."""
    excluded = tries = 0
    for seed in range(60):
        runs = in_blocks(campaign(seed, repeats=5, run_cv=0.01), seed, 0.03)
        for one in judge(runs, "1.0", "1.1", policy()).verdicts:
            if one.percentiles:
                tries += 1
                excluded += any(change.band_low > 0 or change.band_high < 0 for change in one.percentiles)
    assert excluded / tries <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / tries)
