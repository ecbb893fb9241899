-- One row a comparison, scenario and metric, in the order in which they were measured: what each release changed.
CREATE OR REPLACE VIEW release_history AS
SELECT
    measured.measured_from,
    verdict.comparison,
    decision.baseline,
    decision.candidate,
    verdict.scenario,
    verdict.metric,
    verdict.verdict,
    verdict.estimate,
    verdict.low,
    verdict.high,
    verdict.baseline_value,
    verdict.candidate_value,
    verdict.unit,
    verdict.deciding_percentile,
    verdict.baseline_repeats,
    verdict.candidate_repeats,
    decision.answer,
    decision.control_status,
    decision.policy_name,
    decision.policy_version
FROM verdict
JOIN decision USING (comparison)
LEFT JOIN (SELECT comparison, min(hold_start) AS measured_from FROM run GROUP BY comparison) AS measured USING (comparison)
WHERE NOT verdict.absent
ORDER BY measured.measured_from, verdict.comparison, verdict.scenario, verdict.metric;
COMMENT ON VIEW release_history IS 'One row a comparison, scenario and metric, in the order in which they were measured: what each release changed';
COMMENT ON COLUMN release_history.measured_from IS 'start of the hold of the first run of the comparison (UTC)';
COMMENT ON COLUMN release_history.comparison IS 'key <baseline>__<candidate> of the comparison (text)';
COMMENT ON COLUMN release_history.baseline IS 'version that is compared against (text)';
COMMENT ON COLUMN release_history.candidate IS 'version that is judged (text)';
COMMENT ON COLUMN release_history.scenario IS 'workload shape, configuration and target rate (text)';
COMMENT ON COLUMN release_history.metric IS 'name of the metric (word)';
COMMENT ON COLUMN release_history.verdict IS 'equivalent, regression, improvement, inconclusive or not comparable (word)';
COMMENT ON COLUMN release_history.estimate IS 'change of candidate against baseline; a difference of shares for error rates (ratio minus 1, or share)';
COMMENT ON COLUMN release_history.low IS 'lower end of the interval (as estimate)';
COMMENT ON COLUMN release_history.high IS 'upper end of the interval (as estimate)';
COMMENT ON COLUMN release_history.baseline_value IS 'the metric of the baseline (in unit)';
COMMENT ON COLUMN release_history.candidate_value IS 'the metric of the candidate (in unit)';
COMMENT ON COLUMN release_history.unit IS 'unit of baseline_value and candidate_value (word)';
COMMENT ON COLUMN release_history.deciding_percentile IS 'percentile that estimate, low and high belong to; distributions only (percent, 0 to 100)';
COMMENT ON COLUMN release_history.baseline_repeats IS 'runs of the baseline that were compared (count)';
COMMENT ON COLUMN release_history.candidate_repeats IS 'runs of the candidate that were compared (count)';
COMMENT ON COLUMN release_history.answer IS 'decision on the comparison: regression, no regression or not enough evidence (word)';
COMMENT ON COLUMN release_history.control_status IS 'negative control of the comparison: quiet, moved, cannot tell or absent (word)';
COMMENT ON COLUMN release_history.policy_name IS 'policy that the gates went by (text)';
COMMENT ON COLUMN release_history.policy_version IS 'version of that policy (text)';
