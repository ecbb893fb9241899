-- Gate 3, one row a scenario, distribution and percentile: the curve behind the verdict.
CREATE TABLE IF NOT EXISTS gate_change (
    comparison VARCHAR NOT NULL,
    scenario VARCHAR NOT NULL,
    metric VARCHAR NOT NULL,
    p DOUBLE NOT NULL,
    estimate DOUBLE NOT NULL,
    low DOUBLE NOT NULL,
    high DOUBLE NOT NULL,
    band_low DOUBLE NOT NULL,
    band_high DOUBLE NOT NULL,
    baseline_ms DOUBLE NOT NULL,
    candidate_ms DOUBLE NOT NULL,
    df DOUBLE
);
COMMENT ON TABLE gate_change IS 'Gate 3, has the new version changed? One row a scenario, distribution and percentile';
COMMENT ON COLUMN gate_change.comparison IS 'key <baseline>__<candidate> of the comparison (text)';
COMMENT ON COLUMN gate_change.scenario IS 'workload shape, configuration and target rate (text)';
COMMENT ON COLUMN gate_change.metric IS 'client_latency, service_latency or upstream_latency (word)';
COMMENT ON COLUMN gate_change.p IS 'percentile (percent, 0 to 100)';
COMMENT ON COLUMN gate_change.estimate IS 'change of candidate against baseline, +0.10 is 10 % more (ratio minus 1)';
COMMENT ON COLUMN gate_change.low IS 'lower end of the pointwise interval (ratio minus 1)';
COMMENT ON COLUMN gate_change.high IS 'upper end of the pointwise interval (ratio minus 1)';
COMMENT ON COLUMN gate_change.band_low IS 'lower edge of the simultaneous band over all percentiles (ratio minus 1)';
COMMENT ON COLUMN gate_change.band_high IS 'upper edge of the simultaneous band over all percentiles (ratio minus 1)';
COMMENT ON COLUMN gate_change.baseline_ms IS 'the percentile of the baseline (ms)';
COMMENT ON COLUMN gate_change.candidate_ms IS 'the percentile of the candidate (ms)';
COMMENT ON COLUMN gate_change.df IS 'degrees of freedom of the pointwise interval (count)';
