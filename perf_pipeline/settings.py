"""Where this deployment keeps things, read from the environment when they are needed.

What belongs here: the names of the environment variables and their defaults, in one place for the command line and for
Dagster. Everything lives below `PERF_PIPELINE_HOME` unless a variable says otherwise. `.env.example` lists them all.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perf_pipeline.files import project_file

DEMO_PLAN = "examples/demo/plan.yaml"


@dataclass(frozen=True)
class Settings:
    """The places of one deployment."""

    home: Path
    """Folder of everything below, unless it is named by itself (PERF_PIPELINE_HOME, default ./storage)."""
    plan: Path
    """The plan file (PERF_PIPELINE_PLAN, default the demo plan)."""
    store: str
    """The object store: a folder or s3://<bucket>/<prefix> (PERF_PIPELINE_STORE, default <home>/objects)."""
    warehouse: Path
    """The DuckDB file (PERF_PIPELINE_WAREHOUSE, default <home>/warehouse.duckdb)."""
    policy: str | None
    """A built-in policy or a policy file that takes the place of the plan's (PERF_PIPELINE_POLICY)."""
    token_key_file: Path
    """The key that signs tokens, unless PERF_PIPELINE_TOKEN_KEY holds it (PERF_PIPELINE_TOKEN_KEY_FILE)."""
    kafka: str | None
    """The brokers that the access log is landed from, host:port[,host:port...] (PERF_PIPELINE_KAFKA)."""
    kafka_settings: Path | None
    """YAML file of further settings of the consumer, such as security_protocol (PERF_PIPELINE_KAFKA_SETTINGS)."""

    dagster_home: Path
    """Folder of Dagster's own state: runs, events, schedules (DAGSTER_HOME, default <home>/dagster)."""


def read_settings(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings that the environment names; what it leaves out takes its default."""
    home = Path(environ.get("PERF_PIPELINE_HOME") or "storage").absolute()
    plan = environ.get("PERF_PIPELINE_PLAN")
    kafka_settings = environ.get("PERF_PIPELINE_KAFKA_SETTINGS")
    return Settings(
        home=home,
        plan=Path(plan).absolute() if plan else project_file(DEMO_PLAN),
        store=environ.get("PERF_PIPELINE_STORE") or str(home / "objects"),
        warehouse=Path(environ.get("PERF_PIPELINE_WAREHOUSE") or home / "warehouse.duckdb").absolute(),
        policy=environ.get("PERF_PIPELINE_POLICY") or None,
        token_key_file=Path(environ.get("PERF_PIPELINE_TOKEN_KEY_FILE") or home / "token_signing_key.pem").absolute(),
        dagster_home=Path(environ.get("DAGSTER_HOME") or home / "dagster").absolute(),
        kafka=environ.get("PERF_PIPELINE_KAFKA") or None,
        kafka_settings=Path(kafka_settings).absolute() if kafka_settings else None,
    )
