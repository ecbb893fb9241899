-- One row a comparison, scenario and metric: how noisy the lab was, so that the lab itself is watched.
CREATE OR REPLACE VIEW noise_floor AS
SELECT
    measured.measured_from,
    verdict.comparison,
    verdict.scenario,
    verdict.metric,
    verdict.smallest_detectable,
    (verdict.high - verdict.low) / 2 AS half_width,
    least(verdict.baseline_repeats, verdict.candidate_repeats) AS repeats,
    verdict.baseline_value,
    verdict.unit
FROM verdict
LEFT JOIN (SELECT comparison, min(hold_start) AS measured_from FROM run GROUP BY comparison) AS measured USING (comparison)
WHERE NOT verdict.absent
ORDER BY measured.measured_from, verdict.comparison, verdict.scenario, verdict.metric;
COMMENT ON VIEW noise_floor IS 'One row a comparison, scenario and metric: how noisy the lab was, so that the lab itself is watched';
COMMENT ON COLUMN noise_floor.measured_from IS 'start of the hold of the first run of the comparison (UTC)';
COMMENT ON COLUMN noise_floor.comparison IS 'key <baseline>__<candidate> of the comparison (text)';
COMMENT ON COLUMN noise_floor.scenario IS 'workload shape, configuration and target rate (text)';
COMMENT ON COLUMN noise_floor.metric IS 'name of the metric (word)';
COMMENT ON COLUMN noise_floor.smallest_detectable IS 'smallest worsening that 8 of 10 such comparisons would call a regression (ratio minus 1, or share)';
COMMENT ON COLUMN noise_floor.half_width IS 'half the width of the interval of the change (ratio, or share)';
COMMENT ON COLUMN noise_floor.repeats IS 'repeats per version that were compared, of the version that has fewer (count)';
COMMENT ON COLUMN noise_floor.baseline_value IS 'the metric of the baseline: the level of the lab where the baseline stays the same (in unit)';
COMMENT ON COLUMN noise_floor.unit IS 'unit of baseline_value (word)';
