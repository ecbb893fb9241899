"""One resource per outside system: the plan, the object store, the warehouse, the broker, the token key.

What belongs here: where to find them. An empty field takes what the environment says (`perf_pipeline.settings`), when
the resource is used and never at import.
"""

import os
from contextlib import AbstractContextManager
from pathlib import Path

import dagster as dg

from assets.abandoned_runs import note_process
from perf_pipeline.capture.kafka_topic import KafkaTopic, open_topic
from perf_pipeline.capture.token_keys import KEY_FILE_VARIABLE, SigningKey, load_signing_key, public_key_pem
from perf_pipeline.capture.token_source import token_issuer
from perf_pipeline.capture.tokens import TokenIssuer
from perf_pipeline.judge import load_policy
from perf_pipeline.plan import Plan, load_plan
from perf_pipeline.settings import read_settings
from perf_pipeline.storage import ObjectStore, open_store
from perf_pipeline.warehouse import Warehouse


class PlanResource(dg.ConfigurableResource):
    """The plan file that the assets work by."""

    path: str = ""

    def load(self) -> Plan:
        """The plan, with the deployment's policy where one is set. Raises InputError with every error of the file."""
        settings = read_settings()
        plan = load_plan(Path(self.path) if self.path else settings.plan)
        return plan.model_copy(update={"policy": settings.policy}) if settings.policy else plan

    def load_to_measure(self) -> Plan:
        """The plan, once its policy was read too: what is measured for hours can be judged afterwards.

        Raises InputError with every error of the plan, or else of the policy.
        """
        plan = self.load()
        load_policy(plan.policy, plan.folder)
        return plan


class StoreResource(dg.ConfigurableResource):
    """The object store."""

    location: str = ""

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Note down which process executes the run: every run of ours uses the store."""
        if context.run is not None and context.instance is not None:
            note_process(context.instance, context.run)

    def open(self) -> ObjectStore:
        """The store, ready to use."""
        return open_store(self.location or read_settings().store)


class KafkaResource(dg.ConfigurableResource):
    """The Kafka cluster that the access log is landed from, where it comes from one."""

    bootstrap: str = ""
    settings_file: str = ""

    def brokers(self) -> str | None:
        """The brokers, `host:port[,host:port...]`; None where no cluster is named."""
        return self.bootstrap or read_settings().kafka

    def topic(self, name: str) -> AbstractContextManager[KafkaTopic]:
        """A topic, ready to read. Raises InputError when the cluster cannot be reached."""
        settings = Path(self.settings_file) if self.settings_file else read_settings().kafka_settings
        return open_topic(self.brokers() or "", name, settings)


class WarehouseResource(dg.ConfigurableResource):
    """The DuckDB file that people query; it is locked only while a call is under way."""

    path: str = ""

    def open(self) -> Warehouse:
        """The warehouse, ready to use."""
        return Warehouse(Path(self.path) if self.path else read_settings().warehouse)


class TokenResource(dg.ConfigurableResource):
    """The key that signs read-only tokens. It stays in the environment or in its file, and is never shown."""

    key_file: str = ""

    def issuer(self, plan: Plan) -> TokenIssuer:
        """What issues tokens by the plan's token section. Raises InputError when there is no key."""
        return token_issuer(self._key(), plan.tokens)

    def public_key(self) -> str:
        """What a service verifies the tokens with (PEM). Raises InputError when there is no key."""
        return public_key_pem(self._key())

    def _key(self) -> SigningKey:
        if self.key_file:
            return load_signing_key({KEY_FILE_VARIABLE: self.key_file})
        return load_signing_key({KEY_FILE_VARIABLE: str(read_settings().token_key_file)} | dict(os.environ))
