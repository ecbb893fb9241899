-- One row a run and metric: its value, or why there is none.
CREATE TABLE IF NOT EXISTS run_metric (
    comparison VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    metric VARCHAR NOT NULL,
    status VARCHAR NOT NULL,
    reason VARCHAR,
    value DOUBLE,
    unit VARCHAR NOT NULL,
    requests BIGINT,
    errors BIGINT,
    log_bucket_width DOUBLE,
    levels DOUBLE[],
    level_s DOUBLE,
    series_density DOUBLE
);
COMMENT ON TABLE run_metric IS 'One row a run and metric: its value, or why there is none';
COMMENT ON COLUMN run_metric.comparison IS 'key <baseline>__<candidate> of the comparison (text)';
COMMENT ON COLUMN run_metric.run_id IS 'id of the run (text)';
COMMENT ON COLUMN run_metric.metric IS 'name of the metric (word)';
COMMENT ON COLUMN run_metric.status IS 'measured; missing: it should be there and is not; absent: the plan names no source for it (word)';
COMMENT ON COLUMN run_metric.reason IS 'why the metric is missing or absent (text)';
COMMENT ON COLUMN run_metric.value IS 'median of a distribution, the number itself, or the share of errors (in unit)';
COMMENT ON COLUMN run_metric.unit IS 'unit of value and levels: ms, bytes or share (word)';
COMMENT ON COLUMN run_metric.requests IS 'requests behind the value (count)';
COMMENT ON COLUMN run_metric.errors IS 'requests of these that failed; error rates only (count)';
COMMENT ON COLUMN run_metric.log_bucket_width IS 'ln(upper / lower edge) of the bucket that value was read from; 0 when read exactly (ratio, natural logarithm)';
COMMENT ON COLUMN run_metric.levels IS 'the number, or the geometric mean of a distribution, in consecutive parts of the hold, nan where it is not known; null for those of latency_histogram (in unit)';
COMMENT ON COLUMN run_metric.level_s IS 'length of a part of the hold that levels speak of; null for run.sub_window_s (s)';
COMMENT ON COLUMN run_metric.series_density IS 'scrapes in the hold that are there, of those expected; of client_latency, seconds with requests (share, 0 to 1)';
