-- Gate 2, one row a version, scenario and metric.
CREATE TABLE IF NOT EXISTS gate_repeat_agreement (
    comparison VARCHAR NOT NULL,
    version VARCHAR NOT NULL,
    scenario VARCHAR NOT NULL,
    metric VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    statistic VARCHAR NOT NULL,
    value DOUBLE,
    limit_value DOUBLE,
    repeats INTEGER NOT NULL,
    within DOUBLE,
    most_influential_run VARCHAR,
    message VARCHAR NOT NULL
);
COMMENT ON TABLE gate_repeat_agreement IS 'Gate 2, do the repeats agree? One row a version, scenario and metric';
COMMENT ON COLUMN gate_repeat_agreement.comparison IS 'key <baseline>__<candidate> of the comparison (text)';
COMMENT ON COLUMN gate_repeat_agreement.version IS 'build of the service that was tested (text)';
COMMENT ON COLUMN gate_repeat_agreement.scenario IS 'workload shape, configuration and target rate (text)';
COMMENT ON COLUMN gate_repeat_agreement.metric IS 'name of the metric (word)';
COMMENT ON COLUMN gate_repeat_agreement.status IS 'agree, disagree or too few to say (word)';
COMMENT ON COLUMN gate_repeat_agreement.statistic IS 'name of the statistic that value is (text)';
COMMENT ON COLUMN gate_repeat_agreement.value IS 'how far the repeats are apart, by the statistic (ratio)';
COMMENT ON COLUMN gate_repeat_agreement.limit_value IS 'how far they may be apart (ratio)';
COMMENT ON COLUMN gate_repeat_agreement.repeats IS 'runs that passed Gate 1 with this metric (count)';
COMMENT ON COLUMN gate_repeat_agreement.within IS 'distance between two halves of one run; distributions only (ratio)';
COMMENT ON COLUMN gate_repeat_agreement.most_influential_run IS 'run_id of the run that stands furthest from the others (text)';
COMMENT ON COLUMN gate_repeat_agreement.message IS 'the finding as a sentence (text)';
