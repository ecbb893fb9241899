"""The order of runs: randomised complete blocks, the same for the same plan.

What belongs here: which runs a comparison consists of, in which order they are measured, and the seed of each. A block
holds one repeat of every version in every scenario. The order inside a block is random, so that slow changes of the
machine meet both versions alike; the two versions of a scenario follow each other directly, and over the blocks each of
them comes first equally often, so that being first favours neither [Cochran and Cox, Experimental Designs, ch. 4].
Where the plan asks for an A/A arm, each block holds one more run of the baseline in every scenario, before or after the
two versions and equally often either.
"""

import hashlib
import random
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from perf_pipeline.plan import Plan, comparison_key

Arm: TypeAlias = Literal["main", "aa"]


@dataclass(frozen=True)
class PlannedRun:
    """One run that a comparison needs."""

    run_id: str
    """`<version>-<scenario>-r01`; of the A/A arm `<baseline>-<scenario>-aa-r01`."""
    version: str
    scenario: str
    repeat: int
    """From 1."""
    block: int
    """From 1."""
    position: int
    """Place in the order of the campaign, from 1."""
    seed: int
    """Seed of the order of requests; equal for both versions of a scenario in a block, so that they are sent alike."""
    arm: Arm = "main"
    """`aa` for a run of the baseline that stands in for a candidate."""

    def to_json(self) -> dict[str, str | int]:
        """The fields as a JSON object."""
        return asdict(self)


def schedule_runs(plan: Plan, baseline: str, candidate: str) -> list[PlannedRun]:
    """All runs of a comparison in the order in which they are measured.

    A function of the plan's seed, versions, scenarios and repeats. Raises InputError when the versions make no key.
    """
    key = comparison_key(baseline, candidate)
    names = [scenario.name for scenario in plan.scenarios]
    repeats = plan.schedule.repeats
    chance = random.Random(derived_seed(plan.schedule.seed, key))  # noqa: S311 - an order, not a secret
    baseline_first = {name: _balanced(repeats, chance) for name in names}
    # Drawn by itself: an A/A arm moves no other run.
    aside = random.Random(derived_seed(plan.schedule.seed, key, "aa"))  # noqa: S311
    arm_first = {name: _balanced(repeats, aside) for name in names}
    runs: list[PlannedRun] = []
    for block in range(1, repeats + 1):
        for name in chance.sample(names, len(names)):
            members: list[tuple[str, Arm]] = [(baseline, "main"), (candidate, "main")]
            if not baseline_first[name][block - 1]:
                members.reverse()
            if plan.schedule.aa_arm:
                members.insert(0 if arm_first[name][block - 1] else 2, (baseline, "aa"))
            for version, arm in members:
                runs.append(
                    PlannedRun(
                        run_id=f"{version}-{name}-{'aa-' if arm == 'aa' else ''}r{block:02d}",
                        version=version,
                        scenario=name,
                        repeat=block,
                        block=block,
                        position=len(runs) + 1,
                        seed=derived_seed(plan.schedule.seed, name, block),
                        arm=arm,
                    )
                )
    return runs


def derived_seed(*parts: str | int) -> int:
    """A seed of 32 bits from a seed and the names of what it is for: the same on every machine and Python."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def _balanced(repeats: int, chance: random.Random) -> list[bool]:
    """`repeats` answers in random order, as many yes as no; with an odd number chance decides the one left over."""
    answers = [number % 2 == 0 for number in range(repeats - repeats % 2)]
    answers += [chance.random() < 0.5] * (repeats % 2)
    chance.shuffle(answers)
    return answers
