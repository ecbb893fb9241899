-- Gate 1, one row a run and check; a run without a check has one row with no check_name.
CREATE TABLE IF NOT EXISTS gate_run_validity (
    comparison VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    version VARCHAR NOT NULL,
    scenario VARCHAR NOT NULL,
    repeat INTEGER NOT NULL,
    run_status VARCHAR NOT NULL,
    reason VARCHAR NOT NULL,
    dropped_metrics VARCHAR[] NOT NULL,
    check_name VARCHAR,
    metric VARCHAR,
    status VARCHAR,
    value DOUBLE,
    limit_value DOUBLE,
    unit VARCHAR,
    message VARCHAR,
    consequence VARCHAR
);
COMMENT ON TABLE gate_run_validity IS 'Gate 1, is this run valid? One row a run and check';
COMMENT ON COLUMN gate_run_validity.comparison IS 'key <baseline>__<candidate> of the comparison (text)';
COMMENT ON COLUMN gate_run_validity.run_id IS 'id of the run (text)';
COMMENT ON COLUMN gate_run_validity.version IS 'build of the service that was tested (text)';
COMMENT ON COLUMN gate_run_validity.scenario IS 'workload shape, configuration and target rate (text)';
COMMENT ON COLUMN gate_run_validity.repeat IS 'number among the runs of the same version and scenario, from 1 (count)';
COMMENT ON COLUMN gate_run_validity.run_status IS 'what became of the run: passed, metric dropped or set aside (word)';
COMMENT ON COLUMN gate_run_validity.reason IS 'why the run was set aside or lost metrics; empty when it passed (text)';
COMMENT ON COLUMN gate_run_validity.dropped_metrics IS 'metrics of the run that are not compared (words)';
COMMENT ON COLUMN gate_run_validity.check_name IS 'what was checked; null for a run that no check was made on (text)';
COMMENT ON COLUMN gate_run_validity.metric IS 'metric that the check is about; null when it is about the run (word)';
COMMENT ON COLUMN gate_run_validity.status IS 'pass, fail, cannot tell or not measured (word)';
COMMENT ON COLUMN gate_run_validity.value IS 'what was found (in unit)';
COMMENT ON COLUMN gate_run_validity.limit_value IS 'the limit of the policy (in unit)';
COMMENT ON COLUMN gate_run_validity.unit IS 'unit of value and limit_value (word)';
COMMENT ON COLUMN gate_run_validity.message IS 'the finding as a sentence (text)';
COMMENT ON COLUMN gate_run_validity.consequence IS 'what the check did: none, drop metric or set aside (word)';
