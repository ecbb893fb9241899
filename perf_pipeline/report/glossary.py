"""The words of a report and what each means, for the reader who meets them for the first time.

What belongs here: one sentence a word, in the sense of `docs/glossary.md`.
"""

GLOSSARY: tuple[tuple[str, str], ...] = (
    ("baseline, candidate", "the version that runs today, and the one that might be released"),
    ("scenario", "one workload shape under one configuration of the service at one target rate"),
    (
        "run",
        "one test of one version in one scenario: start everything fresh, warm up, hold, measure, take it down."
        " Runs are what is counted as evidence, never requests",
    ),
    ("repeat", "one of the runs of the same version and scenario"),
    ("hold", "the measured part of a run, at steady load; warm-up is never in it"),
    ("metric", "what is judged: a latency distribution, percentile by percentile, or a single number"),
    ("percentile", "p95 is the latency that 95 of 100 requests stay below"),
    (
        "change",
        "candidate relative to baseline: +10 % is a tenth more. For error rates it is the difference in percentage"
        " points",
    ),
    ("interval", "where the true change lies, given how much runs of one version differ; written [low, high]"),
    (
        "band",
        "the wider interval that holds at all percentiles at once. A regression or an improvement needs the band beyond"
        " the zone, because one of many percentiles often strays by chance",
    ),
    (
        "zone",
        "the smallest change that counts. A relative zone reaches as far down as up when seen as a ratio: 1.1 times is"
        " +10 %, 1/1.1 is −9.1 %",
    ),
    ("gate", "a rule for whether a result is good enough to act on: 1 run validity, 2 repeat agreement, 3 change"),
    ("set aside", "a run that failed Gate 1: it measured a broken test, not the service. The reason is always given"),
    ("negative control", "a metric that no version of the service can change. When it moves, the lab moved"),
    ("A/A arm", "the baseline measured a second time in the place of a candidate. When it moves, the lab moved"),
    ("look", "one of the numbers of repeats, fixed before the first run, at which a campaign is judged"),
    ("pair", "two runs of the same block, one of each version, compared with each other"),
    ("pooled", "the mean change over all comparable scenarios, each with the same weight"),
    (
        "smallest detectable change",
        "the smallest worsening that would have been called a regression in 8 of 10 such comparisons",
    ),
    ("policy", "the versioned file with every limit that the gates use"),
)
