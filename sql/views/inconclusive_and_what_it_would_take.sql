-- One row an inconclusive verdict: how far it is from an answer, and what more of the lab's time would settle it.
CREATE OR REPLACE VIEW inconclusive_and_what_it_would_take AS
SELECT
    verdict.comparison,
    verdict.scenario,
    verdict.metric,
    verdict.deciding_percentile,
    verdict.estimate,
    verdict.low,
    verdict.high,
    verdict.zone_low,
    verdict.zone_high,
    greatest(verdict.high - verdict.zone_high, verdict.zone_low - verdict.low) AS beyond_zone,
    verdict.smallest_detectable,
    least(verdict.baseline_repeats, verdict.candidate_repeats) AS repeats,
    verdict.repeats_to_settle,
    -- greatest() skips nulls, and no number of repeats is not zero repeats.
    CASE WHEN verdict.repeats_to_settle IS NOT NULL
         THEN greatest(0, verdict.repeats_to_settle - verdict.baseline_repeats)
            + greatest(0, verdict.repeats_to_settle - verdict.candidate_repeats) END AS more_runs,
    more_runs * hold.hold_s AS more_hold_s,
    verdict.reason
FROM verdict
LEFT JOIN (SELECT comparison, scenario, avg(hold_s) AS hold_s FROM run GROUP BY comparison, scenario) AS hold
    USING (comparison, scenario)
WHERE verdict.verdict = 'inconclusive'
ORDER BY verdict.comparison, verdict.repeats_to_settle NULLS LAST, verdict.scenario, verdict.metric;
COMMENT ON VIEW inconclusive_and_what_it_would_take IS 'One row an inconclusive verdict: how far it is from an answer, and what would settle it';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.comparison IS 'key <baseline>__<candidate> of the comparison (text)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.scenario IS 'workload shape, configuration and target rate (text)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.metric IS 'name of the metric (word)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.deciding_percentile IS 'percentile that estimate, low and high belong to; distributions only (percent, 0 to 100)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.estimate IS 'change of candidate against baseline; a difference of shares for error rates (ratio minus 1, or share)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.low IS 'lower end of the interval (as estimate)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.high IS 'upper end of the interval (as estimate)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.zone_low IS 'lower edge of the zone: the smallest change that counts (as estimate)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.zone_high IS 'upper edge of the zone (as estimate)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.beyond_zone IS 'how far the interval reaches beyond the zone, on the side where it reaches further (as estimate)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.smallest_detectable IS 'smallest worsening that 8 of 10 such comparisons would call a regression (as estimate)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.repeats IS 'repeats per version that were compared, of the version that has fewer (count)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.repeats_to_settle IS 'repeats per version that would settle it if the noise stays as it is; null when no number would (count)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.more_runs IS 'runs of both versions that are missing for that (count)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.more_hold_s IS 'measured time of those runs, without their set-up and warm-up (s)';
COMMENT ON COLUMN inconclusive_and_what_it_would_take.reason IS 'why the verdict is inconclusive (text)';
