-- One row a comparison: is the new version slower?
CREATE TABLE IF NOT EXISTS decision (
    comparison VARCHAR NOT NULL,
    baseline VARCHAR NOT NULL,
    candidate VARCHAR NOT NULL,
    answer VARCHAR NOT NULL,
    headline VARCHAR NOT NULL,
    known VARCHAR[] NOT NULL,
    not_known VARCHAR[] NOT NULL,
    exit_code INTEGER NOT NULL,
    policy_name VARCHAR NOT NULL,
    policy_version VARCHAR NOT NULL,
    control_metric VARCHAR NOT NULL,
    control_status VARCHAR NOT NULL,
    control_estimate DOUBLE,
    control_low DOUBLE,
    control_high DOUBLE,
    control_message VARCHAR NOT NULL,
    notes VARCHAR[] NOT NULL,
    looks INTEGER[] NOT NULL,
    aa_status VARCHAR,
    aa_message VARCHAR
);
COMMENT ON TABLE decision IS 'Is the new version slower? One row a comparison';
COMMENT ON COLUMN decision.comparison IS 'key <baseline>__<candidate> of the comparison (text)';
COMMENT ON COLUMN decision.baseline IS 'version that is compared against (text)';
COMMENT ON COLUMN decision.candidate IS 'version that is judged (text)';
COMMENT ON COLUMN decision.answer IS 'regression, no regression or not enough evidence (word)';
COMMENT ON COLUMN decision.headline IS 'the answer as a sentence (text)';
COMMENT ON COLUMN decision.known IS 'what the evidence supports, one sentence each (texts)';
COMMENT ON COLUMN decision.not_known IS 'what it leaves open, and what it would take, one sentence each (texts)';
COMMENT ON COLUMN decision.exit_code IS 'exit code of the command line without --require-evidence (number)';
COMMENT ON COLUMN decision.policy_name IS 'policy that the gates went by (text)';
COMMENT ON COLUMN decision.policy_version IS 'version of that policy (text)';
COMMENT ON COLUMN decision.control_metric IS 'the negative control: a metric that no version of the service can change (word)';
COMMENT ON COLUMN decision.control_status IS 'quiet, moved, cannot tell or absent (word)';
COMMENT ON COLUMN decision.control_estimate IS 'change of the negative control (ratio minus 1)';
COMMENT ON COLUMN decision.control_low IS 'lower end of its interval (ratio minus 1)';
COMMENT ON COLUMN decision.control_high IS 'upper end of its interval (ratio minus 1)';
COMMENT ON COLUMN decision.control_message IS 'what the negative control says, as a sentence (text)';
COMMENT ON COLUMN decision.notes IS 'statements about the campaign as a whole (texts)';
COMMENT ON COLUMN decision.looks IS 'repeats per version at which the campaign was to be judged, fixed before its first run; empty for one look (list of counts)';
COMMENT ON COLUMN decision.aa_status IS 'the baseline against itself: quiet, moved or cannot tell; null without an A/A arm (word)';
COMMENT ON COLUMN decision.aa_message IS 'the same in words (text)';
