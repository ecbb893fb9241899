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
        "decision": _plain(judgement.decision),
        "comparison": {"baseline": judgement.baseline, "candidate": judgement.candidate},
        "policy": {"name": judgement.policy_name, "version": judgement.policy_version},
        "verdicts": [_verdict(verdict) for verdict in judgement.verdicts],
        "runs": _plain(judgement.runs),
        "agreement": _plain(judgement.agreement),
        "pooled": _plain(judgement.pooled),
        "negative_control": _plain(judgement.negative_control),
        "looks": _plain(judgement.looks),
        "aa_arm": _arm(judgement.aa_arm),
        "notes": _plain(judgement.notes),
    }


def _arm(arm: ArmAgainstItself | None) -> dict[str, Any] | None:
    return None if arm is None else {**_plain(arm), "verdicts": [_verdict(verdict) for verdict in arm.verdicts]}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    kind = "difference of shares" if verdict.metric in ERROR_RATES else "relative"
    return {**_plain(verdict), "change": kind}


def _plain(value: Any) -> Any:
    """Dataclasses as objects, sequences as arrays, numbers that are not finite as null."""
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
