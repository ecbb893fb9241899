"""The judgement as JSON, for programs: what `--json` prints.

What belongs here: the shape that `docs/judgement.schema.json` describes. A field of the findings appears under its own
name; a new one must be added to the schema, and a test says so.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from perf_pipeline.gates.evidence import ERROR_RATES
from perf_pipeline.gates.findings import ArmAgainstItself, Judgement, Verdict

SCHEMA_VERSION = 1
"""Rises when a field goes or changes its meaning; new fields alone do not raise it."""


def to_json(judgement: Judgement) -> dict[str, Any]:
    """The judgement as plain values that every JSON writer takes.

    Changes are ratios minus 1, for error rates differences of shares; each verdict says which in `change`. A number
    that does not exist or is not finite is null: NaN and infinity never appear.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "decision": plain(judgement.decision),
        "comparison": {"baseline": judgement.baseline, "candidate": judgement.candidate},
        "policy": {"name": judgement.policy_name, "version": judgement.policy_version},
        "verdicts": [verdict_to_json(verdict) for verdict in judgement.verdicts],
        "runs": plain(judgement.runs),
        "agreement": plain(judgement.agreement),
        "pooled": plain(judgement.pooled),
        "negative_control": plain(judgement.negative_control),
        "looks": plain(judgement.looks),
        "aa_arm": _arm(judgement.aa_arm),
        "notes": plain(judgement.notes),
    }


def _arm(arm: ArmAgainstItself | None) -> dict[str, Any] | None:
    return None if arm is None else {**plain(arm), "verdicts": [verdict_to_json(verdict) for verdict in arm.verdicts]}


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """One verdict as plain values."""
    kind = "difference of shares" if verdict.metric in ERROR_RATES else "relative"
    return {**plain(verdict), "change": kind}


def plain(value: Any) -> Any:
    """Dataclasses as objects, sequences as arrays, numbers that are not finite as null."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
