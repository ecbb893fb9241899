-- One row a comparison and scenario, one column a metric: the whole result on one screen.
CREATE OR REPLACE VIEW verdict_matrix AS
SELECT
    comparison,
    scenario,
    any_value(verdict_or_absent) FILTER (metric = 'client_latency') AS client_latency,
    any_value(verdict_or_absent) FILTER (metric = 'service_latency') AS service_latency,
    any_value(verdict_or_absent) FILTER (metric = 'service_p99') AS service_p99,
    any_value(verdict_or_absent) FILTER (metric = 'service_memory') AS service_memory,
    any_value(verdict_or_absent) FILTER (metric = 'http_error_rate') AS http_error_rate,
    any_value(verdict_or_absent) FILTER (metric = 'graphql_error_rate') AS graphql_error_rate,
    any_value(verdict_or_absent) FILTER (metric = 'upstream_latency') AS upstream_latency
FROM (SELECT comparison, scenario, metric, CASE WHEN absent THEN 'absent' ELSE verdict END AS verdict_or_absent FROM verdict)
GROUP BY comparison, scenario
ORDER BY comparison, scenario;
COMMENT ON VIEW verdict_matrix IS 'One row a comparison and scenario, one column a metric: the whole result on one screen';
COMMENT ON COLUMN verdict_matrix.comparison IS 'key <baseline>__<candidate> of the comparison (text)';
COMMENT ON COLUMN verdict_matrix.scenario IS 'workload shape, configuration and target rate (text)';
COMMENT ON COLUMN verdict_matrix.client_latency IS 'verdict on latency at k6, absent when the plan names no source (word)';
COMMENT ON COLUMN verdict_matrix.service_latency IS 'verdict on latency inside the service, absent when the plan names no source (word)';
COMMENT ON COLUMN verdict_matrix.service_p99 IS 'verdict on the p99 of latency inside the service, absent when the plan names no source (word)';
COMMENT ON COLUMN verdict_matrix.service_memory IS 'verdict on memory of the service, absent when the plan names no source (word)';
COMMENT ON COLUMN verdict_matrix.http_error_rate IS 'verdict on the share of failed requests, absent when the plan names no source (word)';
COMMENT ON COLUMN verdict_matrix.graphql_error_rate IS 'verdict on the share of answers with GraphQL errors, absent when the plan names no source (word)';
COMMENT ON COLUMN verdict_matrix.upstream_latency IS 'the negative control judged the same way, absent when the plan names no source (word)';
