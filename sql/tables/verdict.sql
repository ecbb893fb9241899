-- One row a scenario and metric: the verdict and what it rests on.
CREATE TABLE IF NOT EXISTS verdict (
    comparison VARCHAR NOT NULL,
    scenario VARCHAR NOT NULL,
    metric VARCHAR NOT NULL,
    verdict VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    estimate DOUBLE,
    low DOUBLE,
    high DOUBLE,
    zone_low DOUBLE,
    zone_high DOUBLE,
    smallest_detectable DOUBLE,
    repeats_to_settle INTEGER,
    deciding_percentile DOUBLE,
    baseline_value DOUBLE,
    candidate_value DOUBLE,
    unit VARCHAR NOT NULL,
    baseline_repeats INTEGER NOT NULL,
    candidate_repeats INTEGER NOT NULL,
    df DOUBLE,
    absent BOOLEAN NOT NULL,
    prior_df DOUBLE,
    paired BOOLEAN NOT NULL,
    look INTEGER,
    tail DOUBLE,
    open_to_repeats BOOLEAN NOT NULL
);
COMMENT ON TABLE verdict IS 'Did this metric change in this scenario? One row a scenario and metric';
COMMENT ON COLUMN verdict.comparison IS 'key <baseline>__<candidate> of the comparison (text)';
COMMENT ON COLUMN verdict.scenario IS 'workload shape, configuration and target rate (text)';
COMMENT ON COLUMN verdict.metric IS 'name of the metric (word)';
COMMENT ON COLUMN verdict.verdict IS 'equivalent, regression, improvement, inconclusive or not comparable (word)';
COMMENT ON COLUMN verdict.reason IS 'why this verdict (text)';
COMMENT ON COLUMN verdict.estimate IS 'change of candidate against baseline; a difference of shares for error rates (ratio minus 1, or share)';
COMMENT ON COLUMN verdict.low IS 'lower end of the interval (as estimate)';
COMMENT ON COLUMN verdict.high IS 'upper end of the interval (as estimate)';
COMMENT ON COLUMN verdict.zone_low IS 'lower edge of the zone: the smallest change that counts (as estimate)';
COMMENT ON COLUMN verdict.zone_high IS 'upper edge of the zone (as estimate)';
COMMENT ON COLUMN verdict.smallest_detectable IS 'smallest worsening that 8 of 10 such comparisons would call a regression (as estimate)';
COMMENT ON COLUMN verdict.repeats_to_settle IS 'repeats per version that would settle an inconclusive one; null when no number would (count)';
COMMENT ON COLUMN verdict.deciding_percentile IS 'percentile that estimate, low and high belong to; distributions only (percent, 0 to 100)';
COMMENT ON COLUMN verdict.baseline_value IS 'the metric of the baseline (in unit)';
COMMENT ON COLUMN verdict.candidate_value IS 'the metric of the candidate (in unit)';
COMMENT ON COLUMN verdict.unit IS 'unit of baseline_value and candidate_value (word)';
COMMENT ON COLUMN verdict.baseline_repeats IS 'runs of the baseline that were compared (count)';
COMMENT ON COLUMN verdict.candidate_repeats IS 'runs of the candidate that were compared (count)';
COMMENT ON COLUMN verdict.df IS 'degrees of freedom of the interval (number)';
COMMENT ON COLUMN verdict.absent IS 'true when the plan names no source for the metric: it was never asked for (yes or no)';
COMMENT ON COLUMN verdict.prior_df IS 'how many of df were lent by the other scenarios of the campaign; null where variances are not moderated (count)';
COMMENT ON COLUMN verdict.paired IS 'whether the runs of one block were compared as pairs; repeats then count pairs (true or false)';
COMMENT ON COLUMN verdict.look IS 'which of the looks that were planned beforehand this is, from 1; null where one look was planned (count)';
COMMENT ON COLUMN verdict.tail IS 'probability that the interval leaves on each side (share, 0 to 1)';
COMMENT ON COLUMN verdict.open_to_repeats IS 'whether more repeats may bring the answer that is missing (true or false)';
