-- One row a metric and statistic, over all comparable scenarios with equal weight.
CREATE TABLE IF NOT EXISTS gate_pooled (
    comparison VARCHAR NOT NULL,
    metric VARCHAR NOT NULL,
    statistic VARCHAR NOT NULL,
    estimate DOUBLE NOT NULL,
    low DOUBLE NOT NULL,
    high DOUBLE NOT NULL,
    df DOUBLE NOT NULL,
    scenarios INTEGER NOT NULL,
    worst_scenario VARCHAR NOT NULL,
    worst_estimate DOUBLE NOT NULL,
    general_low DOUBLE,
    general_high DOUBLE,
    between_scenarios DOUBLE,
    changed STRUCT(scenario VARCHAR, estimate DOUBLE, p_value DOUBLE)[]
);
COMMENT ON TABLE gate_pooled IS 'The change pooled over all comparable scenarios, each with equal weight; one row a metric and statistic';
COMMENT ON COLUMN gate_pooled.comparison IS 'key <baseline>__<candidate> of the comparison (text)';
COMMENT ON COLUMN gate_pooled.metric IS 'name of the metric (word)';
COMMENT ON COLUMN gate_pooled.statistic IS 'what was pooled: p50, p95, value (word)';
COMMENT ON COLUMN gate_pooled.estimate IS 'change of candidate against baseline; a difference of shares for error rates (ratio minus 1, or share)';
COMMENT ON COLUMN gate_pooled.low IS 'lower end of the interval (as estimate)';
COMMENT ON COLUMN gate_pooled.high IS 'upper end of the interval (as estimate)';
COMMENT ON COLUMN gate_pooled.df IS 'degrees of freedom of the interval, after Satterthwaite (number)';
COMMENT ON COLUMN gate_pooled.scenarios IS 'scenarios that were pooled (count)';
COMMENT ON COLUMN gate_pooled.worst_scenario IS 'scenario with the largest worsening (text)';
COMMENT ON COLUMN gate_pooled.worst_estimate IS 'change in the worst scenario (as estimate)';
COMMENT ON COLUMN gate_pooled.general_low IS 'lower end of what holds for scenarios in general, of which these are a sample; null for fewer than two (as estimate)';
COMMENT ON COLUMN gate_pooled.general_high IS 'upper end of what holds for scenarios in general (as estimate)';
COMMENT ON COLUMN gate_pooled.between_scenarios IS 'standard deviation of the true changes between scenarios; null for fewer than two (as estimate)';
COMMENT ON COLUMN gate_pooled.changed IS 'scenarios that changed even when all are asked at once, the most certain first, with p values adjusted by Holm (list)';
