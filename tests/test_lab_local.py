"""The local lab: ports, readiness, variables, digests, and what it says when a program does not come up."""

import socket
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from perf_pipeline.errors import InputError
from perf_pipeline.lab.local import LocalEnvironment
from perf_pipeline.lab.placement import Placement
from perf_pipeline.plan import Plan
from tests.captured_requests import PLAN, small_plan

SERVICE: dict[str, Any] = PLAN["environment"]["service"]


def plan_with(tmp_path: Path, upstream: dict[str, Any] | None = None, **service: Any) -> Plan:
    return small_plan(tmp_path / "plan", environment={"service": SERVICE | service, "upstream": upstream})


def start(plan: Plan, tmp_path: Path, version: str = "1.0") -> Any:
    environment = LocalEnvironment(plan, "PUBLIC KEY", Placement())
    return environment.started(version, plan.scenarios[0], tmp_path / "logs")


def refused(plan: Plan, tmp_path: Path) -> str:
    with pytest.raises(InputError) as caught, start(plan, tmp_path):
        pytest.fail("it started")
    return str(caught.value)


def test_service_and_upstream_answer_on_ports_of_their_own_and_are_gone_afterwards(tmp_path: Path) -> None:
    plan = plan_with(tmp_path, upstream=SERVICE, metrics=None)
    ports = set()
    for _ in range(2):
        with start(plan, tmp_path) as started:
            assert started.upstream
            for endpoint in (started.service, started.upstream):
                assert requests.get(endpoint.url + "/a", timeout=30).text == "ok\n"
                ports.add(endpoint.url)
            assert started.service.metrics_url is None
            assert started.upstream.metrics_url == started.upstream.url + "/metrics"
            assert started.failure() is None
            assert started.load_cpus is None
        assert not any(psutil.pid_exists(endpoint.pid) for endpoint in (started.service, started.upstream))
    assert len(ports) == 4


def test_a_program_gets_its_placeholders_and_not_our_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERF_PIPELINE_TOKEN_KEY", "PRIVATE")
    monkeypatch.setenv("K6_VUS", "3")
    env = {"KEY": "{token_public_key}", "UP": "{upstream_url}", "BUILD": "{version}", "DIR": "{plan_dir}"}
    plan = plan_with(tmp_path, upstream=SERVICE, env=env)
    with start(plan, tmp_path, "1.1") as started:
        variables = psutil.Process(started.service.pid).environ()
        assert {name: variables[name] for name in env} == {
            "KEY": "PUBLIC KEY",
            "UP": started.upstream.url,
            "BUILD": "1.1",
            "DIR": str(plan.folder),
        }
        assert psutil.Process(started.service.pid).cwd() == str(plan.folder)
    assert not {"PERF_PIPELINE_TOKEN_KEY", "K6_VUS"} & set(variables)


def test_a_scenario_adds_its_variables(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, scenarios=[{"name": "s", "rate_per_s": 1, "env": {"BUILD": "other", "MODE": "x"}}])
    with start(plan, tmp_path) as started:
        variables = psutil.Process(started.service.pid).environ()
    assert (variables["BUILD"], variables["MODE"]) == ("other", "x")


def test_a_port_that_is_in_use_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        message = refused(plan_with(tmp_path, port=port), tmp_path)
    assert f"environment.service.port: port {port} is in use" in message
    assert f"-> stop what listens on port {port}" in message


def test_a_program_that_is_never_told_its_port_is_named(tmp_path: Path) -> None:
    plan = plan_with(tmp_path)  # a plan file that says so is refused when it is loaded
    service = plan.environment.service.model_copy(update={"command": ["{python}", "serve.py"], "env": {}})
    plan = plan.model_copy(update={"environment": plan.environment.model_copy(update={"service": service})})
    assert "does not say which port" in refused(plan, tmp_path)


def test_a_fixed_port_is_used(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with start(plan_with(tmp_path, port=port), tmp_path) as started:
        assert started.service.url == f"http://127.0.0.1:{port}"


def test_a_program_that_ends_before_it_is_ready_shows_its_last_lines(tmp_path: Path) -> None:
    code = "import sys; print('reading settings', flush=True); sys.exit('no database {port}')"
    message = refused(plan_with(tmp_path, command=["{python}", "-c", code]), tmp_path)
    assert "environment.service: ended with exit code 1 before it was ready; its last lines:" in message
    assert "    | reading settings\n    | no database" in message


def test_a_program_that_never_becomes_ready_shows_its_last_lines(tmp_path: Path) -> None:
    code = "import time; print('waiting for {port}', flush=True); time.sleep(60)"
    message = refused(plan_with(tmp_path, ready_timeout_s=5, command=["{python}", "-c", code]), tmp_path)
    assert "did not become ready within 5 s: http://127.0.0.1:" in message
    assert "/health gave no answer (ConnectionError); its last lines:\n    | waiting for" in message


def test_ready_is_an_answer_of_200_and_nothing_else(tmp_path: Path) -> None:
    code = (
        "import http.server as h, sys\n"
        "class H(h.BaseHTTPRequestHandler):\n"
        "    def do_GET(self): self.send_response(503); self.end_headers()\n"
        "h.HTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()"
    )
    message = refused(plan_with(tmp_path, command=["{python}", "-c", code, "{port}"], ready_timeout_s=5), tmp_path)
    assert "/health gave status 503" in message


def test_a_program_that_is_not_installed_is_named(tmp_path: Path) -> None:
    message = refused(plan_with(tmp_path, command=["no-such-router", "{port}"]), tmp_path)
    assert "environment.service.command: no-such-router cannot be started: No such file or directory" in message


def test_an_upstream_that_fails_leaves_nothing_running(tmp_path: Path) -> None:
    upstream = SERVICE | {"command": ["{python}", "-c", "exit({port})"]}
    assert "environment.upstream: ended with exit code" in refused(plan_with(tmp_path, upstream=upstream), tmp_path)


def test_a_program_that_ends_later_is_a_failure_with_its_last_lines(tmp_path: Path) -> None:
    with start(plan_with(tmp_path), tmp_path) as started:
        process = psutil.Process(started.service.pid)
        process.kill()
        deadline = time.monotonic() + 30
        while started.failure() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert started.failure() == "the service ended by signal 9"


def test_a_digest_tells_builds_apart_and_runs_not(tmp_path: Path) -> None:
    plan = plan_with(tmp_path, command=["{python}", "service/serve.py", "{port}"])
    source = plan.folder / "service"
    source.mkdir()
    (source / "serve.py").write_text("import part")
    (source / "part.py").write_text("1")

    def digest(version: str, plan: Plan = plan) -> str:
        return LocalEnvironment(plan, "KEY", Placement()).service_digest(version, plan.scenarios[0])

    before = digest("1.0")
    assert before == digest("1.0")
    assert before != digest("1.1"), "the version is a part of the variables"
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "x.pyc").write_text("1")
    (plan.folder / "notes.txt").write_text("beside the plan")
    assert digest("1.0") == before
    (source / "part.py").write_text("2")
    assert digest("1.0") != before
    (source / "part.py").write_text("1")
    assert digest("1.0") == before
    (source / "below").mkdir()
    (source / "part.py").rename(source / "below" / "part.py")
    assert digest("1.0") != before, "it was moved"


def test_the_parts_of_a_service_are_named(tmp_path: Path) -> None:
    plan = plan_with(tmp_path, command=["{python}", "service/serve.py", "{port}"], env={"BUILD": "{version}"})
    (plan.folder / "service" / "below").mkdir(parents=True)
    for name in ("serve.py", "below/part.py"):
        (plan.folder / "service" / name).write_text("1")
    (plan.folder / "service" / "gone.py").symlink_to("nowhere")
    parts = LocalEnvironment(plan, "KEY", Placement()).service_parts("1.0", plan.scenarios[0])
    assert parts["word 1 of the command"] == "service/serve.py"
    assert parts["variable BUILD"] == "1.0"
    files = [name for name in parts if name.startswith("file ")]
    assert sorted(files) == ["file service/below/part.py", "file service/serve.py"]
    assert len([name for name in parts if name.startswith("program ")]) == 1


def test_the_identity_is_the_machines_and_never_a_versions(tmp_path: Path) -> None:
    plan = plan_with(tmp_path, upstream=SERVICE)
    identity = LocalEnvironment(plan, "KEY", Placement()).identity()
    assert {"node", "cpu_model", "kernel", "os", "python", "cpus", "upstream"} <= set(identity)
    assert all(isinstance(text, str) and text for text in identity.values())
    assert identity == LocalEnvironment(plan, "OTHER KEY", Placement()).identity()
    assert identity["cpus"] == "not pinned"
    assert "upstream" not in LocalEnvironment(plan_with(tmp_path), "KEY", Placement()).identity()
