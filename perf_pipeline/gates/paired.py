"""Pairs: runs of both versions that were measured in the same block, where the design said so beforehand.

What belongs here: which runs are pairs. A disturbance that lasts longer than a run hits both runs of a block and drops
out of their difference; the price is half of the degrees of freedom, so that pairing is never decided by the data.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from perf_pipeline.gates.evidence import RunEvidence, Sample
from perf_pipeline.gates.policy import Policy

Side: TypeAlias = Sequence[tuple[str, Sample]]
"""The (run_id, sample) pairs of one version, scenario and metric."""


def designed_in_pairs(runs: Sequence[RunEvidence], policy: Policy) -> bool:
    """Whether the design of every run asks for pairs, and the policy takes it at its word."""
    by_design = all(run.design is not None and run.design.paired for run in runs)
    return policy.change.paired == "when designed" and by_design


def pairs(baseline: Side, candidate: Side, blocks: Mapping[str, int]) -> tuple[Side, Side]:
    """The runs of each side whose block holds one run of both, in the order of blocks; `blocks` are by run_id."""
    sides = (baseline, candidate)
    found = [Counter(blocks[run_id] for run_id, _ in side) for side in sides]
    common = {block for block in found[0] if found[0][block] == found[1][block] == 1}
    kept = [sorted((one for one in side if blocks[one[0]] in common), key=lambda one: blocks[one[0]]) for side in sides]
    return kept[0], kept[1]
