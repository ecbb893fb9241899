"""The section of a plan that says where each metric comes from.

What belongs here: sources of metrics. How they are read is in `metrics`.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from perf_pipeline.plan_base import Section

Process = Literal["service", "upstream"]


class HistogramSource(Section):
    """A Prometheus histogram in seconds, scraped from a process of the environment."""

    histogram: str = Field(description="name without _bucket, such as http_request_duration_seconds")
    process: Process | None = Field("service", description="label `job` of the series; null takes any")
    labels: dict[str, str] = Field(default_factory=dict, description="only series with these labels")


class GaugeSource(Section):
    """A Prometheus gauge, scraped from a process of the environment."""

    gauge: str = Field(description="name of the gauge, such as process_resident_memory_bytes")
    process: Process | None = Field("service", description="label `job` of the series; null takes any")
    labels: dict[str, str] = Field(default_factory=dict, description="only series with these labels")


class MetricsSection(Section):
    """Where each metric comes from. A metric without a source is absent, and the report says so."""

    client_latency: Literal["k6"] | None = Field("k6", description="distribution of latency at k6")
    service_latency: HistogramSource | None = Field(None, description="distribution of latency inside the service")
    service_p99: Literal["service_latency"] | None = Field(None, description="p99 of service_latency as one number")
    service_memory: GaugeSource | None = Field(None, description="memory of the service in bytes")
    http_error_rate: Literal["k6"] | None = Field("k6", description="share of requests with a 4xx or 5xx or no answer")
    graphql_error_rate: Literal["k6"] | None = Field(
        None, description="share of answers whose body carries an errors array; only for GraphQL operations"
    )
    upstream_latency: HistogramSource | None = Field(
        None, description="negative control: latency inside the upstream, which no version of the service can change"
    )

    @model_validator(mode="after")
    def _p99_has_its_distribution(self) -> Self:
        if self.service_p99 and not self.service_latency:
            raise ValueError("service_p99 is read from service_latency, which has no source")
        return self
