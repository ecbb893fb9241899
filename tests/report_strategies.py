"""Judgements of every shape that the types allow, for the properties of the report.

Numbers may be missing, infinite or NaN; texts carry what HTML, Markdown and terminals could take for markup.
"""

from hypothesis import strategies as st

from perf_pipeline.gates.evidence import METRICS, PERCENTILES
from perf_pipeline.gates.findings import (
    Agreement,
    ArmAgainstItself,
    Decision,
    Judgement,
    NegativeControl,
    PercentileChange,
    Pooled,
    RunCheck,
    RunValidity,
    ScenarioChange,
    Verdict,
)

NASTY = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a|b `c` *d* _e_ [f](g) ~~h~~",
    "# heading",
    "- item",
    "1. item",
    "> quote",
    "---",
    "{{ 7 * 7 }} {% raw %}",
    "[bold red]loud[/]",
    "@somebody & more &amp; <b>",
    "</details></td></table>",
    "back\\slash",
    "日本語 äöü",
)
LETTERS = st.characters(categories=("L", "N", "P", "S", "Zs"), max_codepoint=0x2FFF)
TEXT = st.one_of(st.sampled_from(NASTY), st.text(LETTERS, max_size=40))
NAME = st.one_of(
    st.sampled_from(NASTY),
    st.text(st.sampled_from("abcXYZ019._-/<>&'\"|`*[]@ "), min_size=1, max_size=18).filter(str.strip),
)
NUMBER = st.one_of(st.floats(-2, 5), st.floats(allow_nan=True, allow_infinity=True))
OPTIONAL = st.one_of(st.none(), NUMBER)
UNIT = st.sampled_from(["ms", "bytes", "ratio", ""])
COUNT = st.integers(0, 2_000)
METRIC = st.one_of(st.sampled_from(METRICS), st.sampled_from(["queue_depth", "a<b"]))


@st.composite
def _verdicts(draw: st.DrawFn) -> tuple[Verdict, ...]:
    places = draw(st.lists(st.tuples(NAME, METRIC), max_size=4, unique=True))
    found = []
    for scenario, metric in places:
        percentiles = sorted(draw(st.sets(st.sampled_from(PERCENTILES), max_size=3)))
        found.append(
            draw(
                st.builds(
                    Verdict,
                    scenario=st.just(scenario),
                    metric=st.just(metric),
                    verdict=st.sampled_from(
                        ["equivalent", "regression", "improvement", "inconclusive", "not comparable"]
                    ),
                    reason=TEXT,
                    estimate=OPTIONAL,
                    low=OPTIONAL,
                    high=OPTIONAL,
                    zone_low=OPTIONAL,
                    zone_high=OPTIONAL,
                    smallest_detectable=OPTIONAL,
                    repeats_to_settle=st.one_of(st.none(), COUNT),
                    deciding_percentile=st.one_of(st.none(), st.sampled_from(PERCENTILES)),
                    percentiles=st.tuples(
                        *[
                            st.builds(
                                PercentileChange,
                                p=st.just(p),
                                estimate=NUMBER,
                                low=NUMBER,
                                high=NUMBER,
                                band_low=NUMBER,
                                band_high=NUMBER,
                                baseline_ms=NUMBER,
                                candidate_ms=NUMBER,
                            )
                            for p in percentiles
                        ]
                    ),
                    baseline_value=OPTIONAL,
                    candidate_value=OPTIONAL,
                    unit=UNIT,
                    baseline_repeats=COUNT,
                    candidate_repeats=COUNT,
                    df=OPTIONAL,
                    absent=st.booleans(),
                    prior_df=OPTIONAL,
                    paired=st.booleans(),
                    look=st.one_of(st.none(), st.integers(1, 3)),
                    tail=OPTIONAL,
                )
            )
        )
    return tuple(found)


def _tuples(items: st.SearchStrategy, most: int) -> st.SearchStrategy:
    return st.lists(items, max_size=most).map(tuple)


_CHECKS = st.builds(
    RunCheck,
    check=TEXT,
    metric=st.one_of(st.none(), METRIC),
    status=st.sampled_from(["pass", "fail", "cannot tell", "not measured"]),
    value=OPTIONAL,
    limit=OPTIONAL,
    unit=TEXT,
    message=TEXT,
    consequence=st.sampled_from(["none", "drop metric", "set aside"]),
)
_RUNS = st.builds(
    RunValidity,
    run_id=NAME,
    version=NAME,
    scenario=NAME,
    repeat=COUNT,
    status=st.sampled_from(["passed", "metric dropped", "set aside"]),
    reason=TEXT,
    dropped_metrics=_tuples(METRIC, 2),
    checks=_tuples(_CHECKS, 2),
)
_AGREEMENT = st.builds(
    Agreement,
    version=NAME,
    scenario=NAME,
    metric=METRIC,
    status=st.sampled_from(["agree", "disagree", "too few to say"]),
    statistic=st.one_of(TEXT, st.sampled_from(["log Wasserstein distance", "coefficient of variation"])),
    value=OPTIONAL,
    limit=OPTIONAL,
    repeats=COUNT,
    within=OPTIONAL,
    most_influential_run=st.one_of(st.none(), NAME),
    message=TEXT,
)
_POOLED = st.builds(
    Pooled,
    metric=METRIC,
    statistic=st.sampled_from(["p50", "p95", "value"]),
    estimate=NUMBER,
    low=NUMBER,
    high=NUMBER,
    df=NUMBER,
    scenarios=COUNT,
    worst_scenario=NAME,
    worst_estimate=NUMBER,
    general_low=OPTIONAL,
    general_high=OPTIONAL,
    changed=_tuples(st.builds(ScenarioChange, scenario=NAME, estimate=NUMBER, p_value=NUMBER), 5),
)
_ARM = st.builds(
    ArmAgainstItself,
    baseline=NAME,
    status=st.sampled_from(["quiet", "moved", "cannot tell"]),
    message=TEXT,
    verdicts=_verdicts(),
    runs=_tuples(_RUNS, 2),
    agreement=st.just(()),
    pooled=st.just(()),
)
JUDGEMENTS = st.builds(
    Judgement,
    baseline=NAME,
    candidate=NAME,
    policy_name=NAME,
    policy_version=NAME,
    decision=st.builds(
        Decision,
        answer=st.sampled_from(["regression", "no regression", "not enough evidence"]),
        headline=TEXT,
        known=_tuples(TEXT, 3),
        not_known=_tuples(TEXT, 3),
        exit_code=st.integers(0, 3),
    ),
    verdicts=_verdicts(),
    runs=_tuples(_RUNS, 2),
    agreement=_tuples(_AGREEMENT, 2),
    pooled=_tuples(_POOLED, 2),
    negative_control=st.builds(
        NegativeControl,
        metric=METRIC,
        status=st.sampled_from(["quiet", "moved", "cannot tell", "absent"]),
        estimate=OPTIONAL,
        low=OPTIONAL,
        high=OPTIONAL,
        message=TEXT,
    ),
    notes=_tuples(TEXT, 2),
    looks=st.sampled_from([(), (5, 8, 12)]),
    aa_arm=st.one_of(st.none(), _ARM),
)
