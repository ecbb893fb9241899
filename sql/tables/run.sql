-- One row a run: what was run, where, and whether k6 delivered the load that the plan asked for.
CREATE TABLE IF NOT EXISTS run (
    comparison VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    version VARCHAR NOT NULL,
    scenario VARCHAR NOT NULL,
    repeat INTEGER NOT NULL,
    block INTEGER NOT NULL,
    position INTEGER,
    arm VARCHAR,
    looks INTEGER[],
    paired BOOLEAN,
    status VARCHAR NOT NULL,
    failure VARCHAR,
    hold_start TIMESTAMPTZ,
    hold_s DOUBLE,
    sub_window_s DOUBLE,
    sub_windows INTEGER NOT NULL,
    target_rate_per_s DOUBLE,
    achieved_rate_per_s DOUBLE,
    dropped_iterations BIGINT,
    throttled_share DOUBLE,
    counter_resets MAP(VARCHAR, INTEGER),
    clock_offset_s DOUBLE,
    clock_offset_low_s DOUBLE,
    clock_offset_high_s DOUBLE,
    source VARCHAR,
    remarks VARCHAR[],
    not_measured MAP(VARCHAR, VARCHAR),
    environment MAP(VARCHAR, VARCHAR) NOT NULL,
    service_digest VARCHAR,
    workload VARCHAR,
    plan VARCHAR,
    seed BIGINT,
    k6_exit_code INTEGER
);
COMMENT ON TABLE run IS 'One row a run: what was run, where, and whether k6 delivered the load that the plan asked for';
COMMENT ON COLUMN run.comparison IS 'key <baseline>__<candidate> of the comparison (text)';
COMMENT ON COLUMN run.run_id IS 'id of the run, unique within its comparison (text)';
COMMENT ON COLUMN run.version IS 'build of the service that was tested (text)';
COMMENT ON COLUMN run.scenario IS 'workload shape, configuration and target rate (text)';
COMMENT ON COLUMN run.repeat IS 'number among the runs of the same version and scenario, from 1 (count)';
COMMENT ON COLUMN run.block IS 'block of the schedule: one repeat of every version and scenario (count)';
COMMENT ON COLUMN run.position IS 'place in the order of the whole campaign, from 1; null when the harness did not say (count)';
COMMENT ON COLUMN run.arm IS 'main, or aa: a run of the baseline that stands in for a candidate (word)';
COMMENT ON COLUMN run.looks IS 'repeats per version at which the campaign is judged, fixed beforehand; empty for one look, null when not said (counts)';
COMMENT ON COLUMN run.paired IS 'true when runs of one block are analysed as pairs, fixed beforehand; null when not said (yes or no)';
COMMENT ON COLUMN run.status IS 'complete, or failed: it did not finish and has no measurements (word)';
COMMENT ON COLUMN run.failure IS 'why a failed run did not finish (text)';
COMMENT ON COLUMN run.hold_start IS 'when the measured window began; null when the source does not say (UTC)';
COMMENT ON COLUMN run.hold_s IS 'length of the measured window; null when the source does not say (s)';
COMMENT ON COLUMN run.sub_window_s IS 'length of a sub-window of the hold, the last one may be shorter; null when the source has no time axis (s)';
COMMENT ON COLUMN run.sub_windows IS 'sub-windows that make up the hold (count)';
COMMENT ON COLUMN run.target_rate_per_s IS 'rate at which k6 was to start requests; null when nobody said it (requests/s)';
COMMENT ON COLUMN run.achieved_rate_per_s IS 'requests started in the hold, divided by its length; null when not measured (requests/s)';
COMMENT ON COLUMN run.dropped_iterations IS 'iterations of the hold that k6 had no virtual user for; null when not measured (count)';
COMMENT ON COLUMN run.throttled_share IS 'CPU periods of the service in the hold that were throttled; null when not measured (share, 0 to 1)';
COMMENT ON COLUMN run.counter_resets IS 'how often the counters of each process went back in the hold, because it started again; empty when not measured (count by name)';
COMMENT ON COLUMN run.clock_offset_s IS 'clock of the series minus clock of k6, from the end of the load; null when not measured (s)';
COMMENT ON COLUMN run.clock_offset_low_s IS 'smallest offset that the data allow (s)';
COMMENT ON COLUMN run.clock_offset_high_s IS 'largest offset that the data allow (s)';
COMMENT ON COLUMN run.source IS 'what the run was read from: run directory, or the form of a result of another load generator (text)';
COMMENT ON COLUMN run.remarks IS 'what a reader has to know of how the source was read (sentences)';
COMMENT ON COLUMN run.not_measured IS 'checks of Gate 1 that the source cannot answer, each with the reason (text by name)';
COMMENT ON COLUMN run.environment IS 'identity of the environment, equal on both sides of a valid comparison (text by name)';
COMMENT ON COLUMN run.service_digest IS 'digest of the image or command of the service (text)';
COMMENT ON COLUMN run.workload IS 'content hash of the replayed workload (text)';
COMMENT ON COLUMN run.plan IS 'content hash of the plan (text)';
COMMENT ON COLUMN run.seed IS 'seed of the order of requests (number)';
COMMENT ON COLUMN run.k6_exit_code IS 'exit code of k6 (number)';
