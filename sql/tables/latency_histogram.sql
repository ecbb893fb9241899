-- One row a bucket that holds requests: every latency distribution of every run, by sub-window of its hold.
CREATE TABLE IF NOT EXISTS latency_histogram (
    comparison VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    metric VARCHAR NOT NULL,
    sub_window INTEGER NOT NULL,
    bucket_low_ms DOUBLE NOT NULL,
    bucket_high_ms DOUBLE NOT NULL,
    count BIGINT NOT NULL,
    odd_count BIGINT
);
COMMENT ON TABLE latency_histogram IS 'One row a bucket that holds requests: every latency distribution of every run, by sub-window of its hold';
COMMENT ON COLUMN latency_histogram.comparison IS 'key <baseline>__<candidate> of the comparison (text)';
COMMENT ON COLUMN latency_histogram.run_id IS 'id of the run (text)';
COMMENT ON COLUMN latency_histogram.metric IS 'client_latency, service_latency or upstream_latency (word)';
COMMENT ON COLUMN latency_histogram.sub_window IS 'number of the sub-window of the hold, from 0; run.sub_window_s is its length (count)';
COMMENT ON COLUMN latency_histogram.bucket_low_ms IS 'lower edge of the bucket; log-spaced by 0.5 % for client_latency, as scraped for the others (ms)';
COMMENT ON COLUMN latency_histogram.bucket_high_ms IS 'upper edge of the bucket, inf when it has none (ms)';
COMMENT ON COLUMN latency_histogram.count IS 'requests in the bucket (count)';
COMMENT ON COLUMN latency_histogram.odd_count IS 'of these, started in every other second of the hold; null where seconds are not known apart (count)';
