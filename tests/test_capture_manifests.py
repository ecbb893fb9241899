"""The manifests of capture: valid Kubernetes, and held together by the names and numbers that have to agree."""

import json
import os
import re
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from dagster_k8s.job import UserDefinedDagsterK8sConfig

from perf_pipeline.settings import read_settings

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples/capture"
VERSION = "1.32"
OVERLAYS = ["k8s/capture", "k8s/capture-with-vector"]


def documents(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


@cache
def _builds() -> bool:
    if shutil.which("kubectl") is None:
        return False
    version = ["kubectl", "version", "--client"]
    said = subprocess.run(version, capture_output=True, text=True, timeout=60, check=False).stdout
    found = re.search(r"Kustomize Version: v([0-9]+)", said)
    return found is not None and int(found[1]) >= 4


@cache
def built(folder: str) -> list[dict[str, Any]]:
    """What would be applied."""
    if not _builds():
        pytest.skip("kubectl with kustomize 4 or later is not on PATH: what it makes of the manifests was NOT tested")
    result = subprocess.run(["kubectl", "kustomize", str(ROOT / folder)], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    return documents(result.stdout)


def one(folder: str, kind: str, name: str) -> dict[str, Any]:
    (found,) = [
        each
        for each in built(folder)
        if each["kind"] == kind and re.fullmatch(rf"{name}(-[a-z0-9]{{10}})?", each["metadata"]["name"])
    ]
    return found


def sources() -> list[Path]:
    kinds = ("kustomization.yaml", "values.yaml")
    return sorted(path for path in (ROOT / "k8s").rglob("*.yaml") if path.name not in kinds)


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.name)
def test_manifests_are_valid_kubernetes(path: Path) -> None:
    for document in documents(path.read_text()):
        kubernetes_validate.validate(document, VERSION, strict=True)


@pytest.mark.parametrize("folder", OVERLAYS)
def test_what_is_applied_is_valid_kubernetes(folder: str) -> None:
    kinds = set()
    for document in built(folder):
        kubernetes_validate.validate(document, VERSION, strict=True)
        kinds.add(document["kind"])
    assert kinds == {"Namespace", "Deployment", "DaemonSet", "Service", "ConfigMap"}


@pytest.mark.parametrize("folder", OVERLAYS)
def test_every_volume_and_every_configuration_is_there(folder: str) -> None:
    names = {(each["kind"], each["metadata"]["name"]) for each in built(folder)}
    for workload in [each for each in built(folder) if each["kind"] in ("Deployment", "DaemonSet")]:
        pod = workload["spec"]["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        for volume in pod["volumes"]:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in names
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
            for source in container.get("envFrom", []):
                assert ("ConfigMap", source["configMapRef"]["name"]) in names
            assert container["resources"]["limits"]["memory"] and container["resources"]["requests"]["cpu"]
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
            assert re.search(r":[0-9]", container["image"]), "an image has a version"


def test_the_shipper_reads_what_nginx_hands_over() -> None:
    nginx = one(OVERLAYS[0], "Deployment", "nginx")["spec"]["template"]["spec"]
    shipper = one(OVERLAYS[0], "DaemonSet", "capture-shipper")["spec"]["template"]["spec"]
    paths = [
        volume["hostPath"]["path"]
        for pod in (nginx, shipper)
        for volume in pod["volumes"]
        if volume["name"] == "captured"
    ]
    settings = one(OVERLAYS[0], "ConfigMap", "shipper-settings")["data"]
    assert paths[0] == paths[1]
    assert settings["CAPTURE_FILES"] == f"{paths[0]}/*/capture-*.log"
    log = (EXAMPLES / "nginx/capture.conf").read_text()
    assert f"access_log {paths[0]}/capture.log capture" in log
    assert nginx["shareProcessNamespace"] is True
    users = {container["securityContext"].get("runAsUser", 101) for container in nginx["containers"]}
    (rotate,) = [each for each in nginx["initContainers"] if each.get("restartPolicy") == "Always"]
    assert users == {101} and "runAsUser" not in rotate["securityContext"], "one user, or rotate.sh sees nothing"


@pytest.mark.parametrize(("folder", "file"), [(OVERLAYS[0], "filebeat.yml"), (OVERLAYS[1], "vector.yaml")])
def test_the_shipper_finds_its_configuration_and_all_its_variables(folder: str, file: str) -> None:
    container = one(folder, "DaemonSet", "capture-shipper")["spec"]["template"]["spec"]["containers"][0]
    assert f"/etc/capture/{file}" in container["args"]
    text = one(folder, "ConfigMap", "capture-shipper")["data"][file]
    assert set(re.findall(r"\$\{(\w+)\}", text)) <= set(one(folder, "ConfigMap", "shipper-settings")["data"])


def test_filebeat_ships_the_bare_line_and_waits_for_all_replicas() -> None:
    config = yaml.safe_load((EXAMPLES / "shippers/filebeat.yml").read_text())
    (source,) = config["filebeat.inputs"]
    output = config["output.kafka"]
    assert source["type"] == "filestream" and source["id"] and "file_identity.fingerprint" in source
    assert source["prospector.scanner.fingerprint"]["length"] <= 128
    assert output["codec.format"] == {"string": "%{[message]}"} and output["required_acks"] == -1
    assert output["max_message_bytes"] > source["message_max_bytes"] > 65_536


def test_fluent_bit_ships_the_bare_line_and_keeps_it_on_disk() -> None:
    pipeline = yaml.safe_load((EXAMPLES / "shippers/fluent-bit.yaml").read_text())["pipeline"]
    (source,), (output,) = pipeline["inputs"], pipeline["outputs"]
    assert output["format"] == "raw" and output["raw_log_key"] == source["key"]
    assert output["rdkafka.acks"] == "all" and output["retry_limit"] == "no_limits"
    assert source["storage.type"] == "filesystem" and source["db"] and source["read_from_head"] is True
    assert output["match"] == source["tag"] and source["skip_long_lines"] is False


def test_vector_ships_the_bare_line_and_waits_for_the_broker() -> None:
    config = yaml.safe_load((EXAMPLES / "shippers/vector.yaml").read_text())
    source, sink = config["sources"]["capture"], config["sinks"]["kafka"]
    assert sink["encoding"] == {"codec": "raw_message"} and sink["acknowledgements"]["enabled"] is True
    assert sink["buffer"]["type"] == "disk" and sink["buffer"]["when_full"] == "block"
    assert sink["librdkafka_options"]["acks"] == "all" and sink["inputs"] == ["capture"]
    assert source["read_from"] == "beginning" and source["fingerprint"]["strategy"] == "checksum"


def test_all_shippers_take_the_same_settings() -> None:
    names = {"CAPTURE_FILES", "CAPTURE_STATE", "CAPTURE_BROKERS", "CAPTURE_TOPIC"}
    for path in (EXAMPLES / "shippers").iterdir():
        if path.name != "kustomization.yaml":
            assert set(re.findall(r"CAPTURE_[A-Z]+", path.read_text())) <= names, path.name
            assert "capture-*.log" in path.read_text(), path.name


def test_dagster_gives_each_hour_a_pod_and_bounds_how_many() -> None:
    values = yaml.safe_load((ROOT / "k8s/dagster/values.yaml").read_text())
    launcher = values["runLauncher"]["config"]["k8sRunLauncher"]
    snake = {
        "podTemplateSpecMetadata": "pod_template_spec_metadata", "podSpecConfig": "pod_spec_config",
        "containerConfig": "container_config", "jobSpecConfig": "job_spec_config",
    }  # fmt: skip
    UserDefinedDagsterK8sConfig.from_dict({snake[key]: value for key, value in launcher["runK8sConfig"].items()})
    coordinator = values["dagsterDaemon"]["runCoordinator"]["config"]["queuedRunCoordinator"]
    (limit,) = coordinator["tagConcurrencyLimits"]
    assert limit["key"] == "dagster/backfill" and 0 < limit["limit"] < coordinator["maxConcurrentRuns"]
    (deployment,) = values["dagster-user-deployments"]["deployments"]
    settings, secret = documents((ROOT / "k8s/dagster/settings.yaml").read_text())
    assert deployment["envConfigMaps"] == [{"name": settings["metadata"]["name"]}]
    assert deployment["envSecrets"] == [{"name": secret["metadata"]["name"]}]
    read = read_settings(settings["data"])
    assert read.store.startswith("s3://") and read.kafka and str(read.plan) == "/plans/shop.yaml"
    locked = re.search(r"^dagster==(.*)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked and f"--version {locked[1]}" in (ROOT / "k8s/dagster/values.yaml").read_text()


def test_the_sweeper_hands_over_what_a_killed_pod_left_and_removes_what_is_old(tmp_path: Path) -> None:
    pod = tmp_path / "pod"
    pod.mkdir()
    old, older = 3_700, 90_000
    for name, age_s in (("capture.log", old), ("rotating-1", old), ("capture-1.log", old), ("capture-2.log", older)):
        (pod / name).write_text(json.dumps(name))

        os.utime(pod / name, (time.time() - age_s,) * 2)
    live = tmp_path / "live"
    live.mkdir()
    (live / "capture.log").write_text("a line")
    sweep = ["sh", str(ROOT / "k8s/capture/sweep.sh"), str(tmp_path)]
    subprocess.run(sweep, check=True, capture_output=True, timeout=30)
    texts = sorted(path.read_text() for path in pod.iterdir() if path.match("capture-*.log"))
    assert texts == ['"capture-1.log"', '"capture.log"', '"rotating-1"']
    assert len(list(pod.iterdir())) == 3 and [path.name for path in live.iterdir()] == ["capture.log"]
