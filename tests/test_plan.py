"""The plan file: every error at once with its place, keys that are safe, hashes that mean something."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from perf_pipeline.errors import InputError
from perf_pipeline.plan import _NOT_OF_A_RUN, Plan, check_versions, comparison_key, load_plan, split_comparison_key
from perf_pipeline.plan_rules import plan_rules

MINIMAL = """\
name: shop
service: the shop API
versions: ["1.0.0", "1.1.0"]
baseline: "1.0.0"
candidate: "1.1.0"
capture:
  topic: shop
  routes: [/products, "/products/{id}"]
tokens: {issuer: https://issuer.example, audience: shop}
workload: {hours: ["2026-11-30-04:00"]}
environment:
  service: {command: ["{python}", serve.py, --port, "{port}"]}
scenarios:
  - {name: browse, rate_per_s: 100}
load: {warmup_s: 2, hold_s: 5}
schedule: {repeats: 5, seed: 1}
metrics: {}
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return path


def changed(**sections: object) -> str:
    return yaml.safe_dump(yaml.safe_load(MINIMAL) | sections, sort_keys=False)


def problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_plan(write(tmp_path, text))
    return [f"{problem.where.removeprefix(str(tmp_path))}: {problem.what}" for problem in caught.value.problems]


def test_a_plan_knows_its_folder_and_its_scenarios(tmp_path: Path) -> None:
    plan = load_plan(write(tmp_path, MINIMAL))
    assert plan.folder == tmp_path
    assert plan.scenario("browse").rate_per_s == 100
    with pytest.raises(KeyError):
        plan.scenario("other")


def test_three_errors_come_at_once_each_with_line_and_path(tmp_path: Path) -> None:
    text = MINIMAL.replace("rate_per_s: 100", "rate_per_s: 0").replace("hold_s: 5", "hold_s: 5, hold: 7")
    text = text.replace("  topic: shop\n", "")
    assert problems(tmp_path, text) == [
        "/plan.yaml:6: capture.topic: is missing",
        "/plan.yaml:13: scenarios[0].rate_per_s: input should be greater than or equal to 1 (it is 0)",
        "/plan.yaml:14: load.hold: is not a known field",
    ]


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"baseline": "9.9"}, "baseline: 9.9 is not among versions: 1.0.0, 1.1.0"),
        ({"candidate": "1.0.0"}, "candidate: 1.0.0 is also the baseline"),
        ({"versions": ["1.0.0", "1.1.0", "a__b"]}, "versions[2]: a__b cannot be part of a comparison key"),
        ({"versions": ["1.0.0", "1.1.0", "1.0.0"]}, "versions[2]: 1.0.0 stands twice"),
        ({"versions": ["1.0.0", 1.1, "1.1.0"]}, "versions[1]: input should be a valid string (it is 1.1)"),
        (
            {"scenarios": [{"name": "a", "rate_per_s": 1}, {"name": "a", "rate_per_s": 2}]},
            "a is the name of two scenarios",
        ),
        (
            {"scenarios": [{"name": "a", "rate_per_s": 1, "routes": ["/products", "/x"]}]},
            "scenarios[0].routes[1]: /x is not in capture.routes",
        ),
        (
            {"workload": {"hours": ["2026-13-45-99:00"]}},
            "workload.hours[0]: 2026-13-45-99:00 is no hour of the calendar",
        ),
        (
            {"load": {"warmup_s": 2, "hold_s": 3600}},
            "tokens.ttl_s: is 3600 s, but a run takes up to 3667.5 s and clocks may differ by 30 s",
        ),
        ({"environment": {"service": {"command": ["serve"]}}}, "environment.service.command: is told no port"),
        (
            {"environment": {"service": {"command": ["serve", "{port}"], "env": {"UP": "{upstream_url}"}}}},
            "environment.service.env.UP: names {upstream_url}, and there is no upstream",
        ),
        ({"capture": {"topic": "t", "routes": ["products"]}}, "is not a route template"),
        ({"capture": {"topic": "t", "routes": ["/"], "deny": ["("]}}, "is not a regular expression"),
        ({"environment": {"service": {"command": ["{prot}", "{port}"]}}}, "unknown placeholder {prot}"),
        ({"metrics": {"service_p99": "service_latency"}}, "service_latency, which has no source"),
        ({"metrics": {"upstream_latency": {"histogram": "x", "process": "upstream"}}}, "needs environment.upstream"),
        ({"workload": {"hours": ["2026-11-30 04:00"]}}, "should match pattern"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(
    tmp_path: Path, sections: dict[str, object], message: str
) -> None:
    (problem,) = problems(tmp_path, changed(**sections))
    assert message in problem


def test_every_error_comes_at_once_in_the_order_of_the_lines_with_a_remedy(tmp_path: Path) -> None:
    """Also what fields must agree on, where others of them are wrong."""
    text = MINIMAL.replace('versions: ["1.0.0", "1.1.0"]', "versions: [1.0, 1.1]").replace('"1.1.0"', "newest")
    text = text.replace("rate_per_s: 100", "rate_per_s: 0, routes: [/other]").replace("hold_s: 5", "hold_s: 2")
    text = text.replace("metrics: {}", "metrics: {upstream_latency: {histogram: x}, surprise: 1}")
    with pytest.raises(InputError) as caught:
        load_plan(write(tmp_path, text))
    found = [problem.where.partition("plan.yaml:")[2] for problem in caught.value.problems]
    assert found == [
        "3: versions[0]", "3: versions[1]", "4: baseline", "5: candidate", "14: scenarios[0].routes[0]",
        "14: scenarios[0].rate_per_s", "15: load.hold_s", "17: metrics.upstream_latency", "17: metrics.surprise",
    ]  # fmt: skip
    assert all(problem.remedy for problem in caught.value.problems)
    assert caught.value.problems[0].remedy in ('quote it: "1.0"', 'quote it: "1.1"')


def test_files_that_a_plan_names_are_looked_for_when_asked(tmp_path: Path) -> None:
    path = write(tmp_path, MINIMAL.replace("topic: shop", "topic: shop\n  log: access.log"))
    load_plan(path)
    with pytest.raises(InputError, match=r"plan\.yaml:8: capture\.log: .*access\.log is no file"):
        load_plan(path, with_files=True)
    (tmp_path / "access.log").write_text("{}")
    load_plan(path, with_files=True)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from([*Plan.model_fields, "routes", "hours", "env", "command", "name"]), inner)
        ),
        max_leaves=15,
    )
)
def test_any_data_is_looked_through(data: object) -> None:
    for finding in plan_rules(data if isinstance(data, dict) else {"scenarios": data, "load": data, "versions": data}):
        assert finding.path and finding.what and finding.remedy


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: cannot be read: No such file"):
        load_plan(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
    with pytest.raises(InputError, match=r"latin\.yaml: is not UTF-8"):
        load_plan(tmp_path / "latin.yaml")


def test_the_hash_covers_what_a_run_depends_on_and_nothing_else(tmp_path: Path) -> None:
    plan = load_plan(write(tmp_path, MINIMAL))
    not_of_a_run = {
        "policy": "v2.18", "name": "other", "service": "other words",
        "versions": ["1.0.0", "1.1.0", "2.0.0"], "workload": {"hours": ["2026-11-30-05:00"]},
        "capture": {"topic": "other", "routes": ["/products"]}, "schedule": {"repeats": 6, "seed": 1},
        "environment": {"service": {"command": ["{python}", "serve.py", "--port", "{port}"], "ready_timeout_s": 60}},
    }  # fmt: skip
    swapped = load_plan(write(tmp_path, changed(baseline="1.1.0", candidate="1.0.0")))
    assert swapped.hash == plan.hash
    for name, section in not_of_a_run.items():
        assert load_plan(write(tmp_path, changed(**{name: section}))).hash == plan.hash, name
    of_a_run = {
        "load": {"warmup_s": 2, "hold_s": 6}, "schedule": {"repeats": 5, "seed": 2},
        "tokens": {"issuer": "other", "audience": "shop"}, "scenarios": [{"name": "browse", "rate_per_s": 101}],
        "environment": {"service": {"command": ["{python}", "other.py", "{port}"]}},
        "metrics": {"service_memory": {"gauge": "memory"}},
    }  # fmt: skip
    for name, section in of_a_run.items():
        assert load_plan(write(tmp_path, changed(**{name: section}))).hash != plan.hash, name


def test_every_section_either_is_of_a_run_or_is_said_not_to_be() -> None:
    of_a_run = {"tokens", "environment", "scenarios", "load", "schedule", "metrics"}
    left_out = {name for name, whole in _NOT_OF_A_RUN.items() if whole is True}
    assert of_a_run | left_out == set(Plan.model_fields) and not of_a_run & left_out


def test_a_changed_field_is_found_by_its_hash(tmp_path: Path) -> None:
    before = load_plan(write(tmp_path, MINIMAL)).field_hashes()
    after = load_plan(write(tmp_path, MINIMAL.replace("rate_per_s: 100", "rate_per_s: 7"))).field_hashes()
    assert {path for path in before if before[path] != after[path]} == {"scenarios[0].rate_per_s"}


def test_an_unknown_version_names_those_that_are_known(tmp_path: Path) -> None:
    plan = load_plan(write(tmp_path, MINIMAL))
    check_versions(plan, "1.0.0", "1.1.0")
    with pytest.raises(InputError, match=r"(?s)unknown version 3.*starts 1\.0\.0, 1\.1\.0") as caught:
        check_versions(plan, "3", "1.0.0", "4")
    assert len(caught.value.problems) == 2


def test_comparison_keys() -> None:
    assert comparison_key("1.0.0", "1.1.0-rc_1") == "1.0.0__1.1.0-rc_1"
    with pytest.raises(InputError, match="two different versions"):
        comparison_key("1.0.0", "1.0.0")
    with pytest.raises(InputError) as caught:
        comparison_key("a|b", "a__b")
    assert [problem.where for problem in caught.value.problems] == ["baseline", "candidate"]
    for key in ("1.0.0", "__a", "a__", "a__b__c", "a_b"):
        with pytest.raises(InputError):
            split_comparison_key(key)


@given(st.text("ab0._-|,", max_size=6), st.text("ab0._-|,", max_size=6))
def test_a_key_that_is_made_is_split_again(baseline: str, candidate: str) -> None:
    try:
        key = comparison_key(baseline, candidate)
    except InputError:
        return
    assert split_comparison_key(key) == (baseline, candidate)


def test_every_field_of_the_schema_says_what_it_is() -> None:
    schema = Plan.model_json_schema()
    unexplained = [
        f"{section}.{name}"
        for section, model in schema["$defs"].items()
        for name, field in model["properties"].items()
        if "description" not in field and name not in ("name",)
    ]
    assert unexplained == []


def schedule_of(tmp_path: Path, section: str) -> Plan:
    path = tmp_path / "plan.yaml"
    path.write_text(MINIMAL.replace("schedule: {repeats: 5, seed: 1}", f"schedule: {section}"))
    return load_plan(path)


def test_the_last_look_is_the_number_of_repeats(tmp_path: Path) -> None:
    assert schedule_of(tmp_path, "{looks: [5, 8, 12]}").schedule.repeats == 12
    assert schedule_of(tmp_path, "{looks: [5, 8], repeats: 8}").schedule.looks == (5, 8)
    assert schedule_of(tmp_path, "{}").schedule.looks == ()


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{looks: [5, 3]}", "looks have to rise: 5, 3"),
        ("{looks: [5, 5]}", "looks have to rise"),
        ("{looks: [5, 8], repeats: 9}", "repeats is 9 and the last look 8: leave repeats out"),
        ("{looks: [1, 8]}", "schedule.looks[0]"),
        ("{looks: all}", "schedule.looks"),
    ],
)
def test_looks_that_make_no_sense_are_refused(tmp_path: Path, section: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        schedule_of(tmp_path, section)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "endpoint",
    ["http://id.example.test/token", "https://", "id.example.test/token", "ftp://localhost/x", "https://a:b@id.example/t",
     "https://id.example.test/token?secret=x", "https://id.example.test/token#x", "http://127.0.0.1.evil.test/t"],
)  # fmt: skip
def test_a_token_endpoint_is_https_or_local_and_holds_no_secret(tmp_path: Path, endpoint: str) -> None:
    tokens = {"issuer": "i", "audience": "a", "exchange": {"endpoint": endpoint}}
    (problem,) = problems(tmp_path, changed(tokens=tokens))
    assert "tokens.exchange.endpoint" in problem


@pytest.mark.parametrize("endpoint", ["https://id.example.test/token", "http://127.0.0.1:8080/t", "http://[::1]/t"])
def test_endpoints_that_are(tmp_path: Path, endpoint: str) -> None:
    tokens = {"issuer": "i", "audience": "a", "exchange": {"endpoint": endpoint}}
    plan = load_plan(write(tmp_path, changed(tokens=tokens)))
    assert plan.tokens.exchange is not None


def test_tokens_that_cannot_outlive_a_run_are_found_in_the_plan(tmp_path: Path) -> None:
    """A run of this plan takes up to 2 + 0.5 + 5 + 5 + 60 s, and clocks may differ by 30 s."""
    tokens = {"issuer": "i", "audience": "a"}
    (problem,) = problems(tmp_path, changed(tokens=tokens | {"ttl_s": 102}))
    assert "tokens.ttl_s: is 102 s, but a run takes up to 72.5 s" in problem
    assert load_plan(write(tmp_path, changed(tokens=tokens | {"ttl_s": 103}))).load.longest_s == 72.5


def test_a_comparison_that_was_refused_for_its_tokens_goes_on_when_the_plan_lets_it(tmp_path: Path) -> None:
    """Else the remedy would throw away what was measured."""
    tokens = {"issuer": "i", "audience": "a"}
    refusing = load_plan(write(tmp_path, changed(tokens=tokens | {"expired": "refuse"})))
    renewing = load_plan(write(tmp_path, changed(tokens=tokens | {"expired": "renew", "ttl_s": 7200})))
    other = load_plan(write(tmp_path, changed(tokens=tokens | {"audience": "another"})))
    assert refusing.hash == renewing.hash != other.hash
