-- One row a scenario, metric and path to the candidate: what all releases since the first one changed together.
CREATE TABLE IF NOT EXISTS release_chain (
    comparison VARCHAR NOT NULL,
    scenario VARCHAR NOT NULL,
    metric VARCHAR NOT NULL,
    path VARCHAR NOT NULL,
    from_version VARCHAR NOT NULL,
    to_version VARCHAR NOT NULL,
    steps INTEGER NOT NULL,
    answer VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    deciding_percentile DOUBLE,
    estimate DOUBLE,
    low DOUBLE,
    high DOUBLE,
    zone_low DOUBLE NOT NULL,
    zone_high DOUBLE NOT NULL
);
COMMENT ON TABLE release_chain IS 'Slow drift: what all releases since the first one changed together, up to the candidate of the comparison';
COMMENT ON COLUMN release_chain.comparison IS 'key <baseline>__<candidate> of the comparison that the chain ends with (text)';
COMMENT ON COLUMN release_chain.scenario IS 'workload shape, configuration and target rate (text)';
COMMENT ON COLUMN release_chain.metric IS 'name of the metric (word)';
COMMENT ON COLUMN release_chain.path IS 'chain: the effects of all steps added up; direct: the two versions measured against each other (word)';
COMMENT ON COLUMN release_chain.from_version IS 'version that the chain begins with (text)';
COMMENT ON COLUMN release_chain.to_version IS 'version that it leads to (text)';
COMMENT ON COLUMN release_chain.steps IS 'comparisons that were added up (count)';
COMMENT ON COLUMN release_chain.answer IS 'equivalent, regression, improvement, inconclusive or not comparable (word)';
COMMENT ON COLUMN release_chain.reason IS 'why, in words (text)';
COMMENT ON COLUMN release_chain.deciding_percentile IS 'percentile that estimate, low and high belong to; distributions only (percent, 0 to 100)';
COMMENT ON COLUMN release_chain.estimate IS 'change from the first to the last version (ratio minus 1)';
COMMENT ON COLUMN release_chain.low IS 'lower end of the interval that decided: the band for a regression or an improvement (ratio minus 1)';
COMMENT ON COLUMN release_chain.high IS 'upper end of the interval that decided (ratio minus 1)';
COMMENT ON COLUMN release_chain.zone_low IS 'lower edge of the zone (ratio minus 1)';
COMMENT ON COLUMN release_chain.zone_high IS 'upper edge of the zone (ratio minus 1)';
