"""What the fields of a plan must agree on, told from the file as it was written, even where parts of it are wrong.

What belongs here: rules across fields. What a field alone may hold is in the models of `plan`; a field that is missing
or of the wrong kind is theirs to report, and passes here.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from perf_pipeline.yaml_model import Finding

START_AND_END_S = 60
"""Seconds beside load that a token has to live through: k6 starts, and may end late."""


def plan_rules(data: dict, folder: Path | None = None) -> Iterator[Finding]:
    """Each rule that the fields break. With the plan's folder, files that it names have to be there."""
    yield from _versions(data)
    yield from _scenarios(data)
    yield from _hours(data)
    yield from _token_lifetime(data)
    yield from _programs(data)
    metrics = _mapping(data, "metrics")
    if metrics.get("upstream_latency") and not _mapping(data, "environment").get("upstream"):
        path = ("metrics", "upstream_latency")
        yield Finding(path, "needs environment.upstream", "name what the service calls, or leave the metric out")
    log = _mapping(data, "capture").get("log")
    if folder and isinstance(log, str) and not (folder / log).is_file():
        yield Finding(("capture", "log"), f"{folder / log} is no file", "name a JSON access log, relative to the plan")


def _versions(data: dict) -> Iterator[Finding]:
    versions = [str(version) for version in _list(data, "versions")]
    for number, version in enumerate(versions):
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", version) and ("__" in version or version.endswith("_")):
            what = f"{version} cannot be part of a comparison key"
            yield Finding(("versions", number), what, "use letters, digits, '.', '_' (single) and '-'")
        if version in versions[:number]:
            yield Finding(("versions", number), f"{version} stands twice", "keep one of them")
    sides = {side: str(data[side]) for side in ("baseline", "candidate") if _is_scalar(data.get(side))}
    for side, version in sides.items():
        if versions and version not in versions:
            what = f"{version} is not among versions: {', '.join(versions)}"
            yield Finding((side,), what, "name one of them, or add it to versions")
    if len(sides) == 2 and sides["baseline"] == sides["candidate"]:
        yield Finding(("candidate",), f"{sides['candidate']} is also the baseline", "name two different versions")


def _scenarios(data: dict) -> Iterator[Finding]:
    captured = _list(_mapping(data, "capture"), "routes")
    names: list[object] = []
    for number, scenario in enumerate(_list(data, "scenarios")):
        if not isinstance(scenario, dict):
            continue
        name = scenario.get("name")
        if name is not None and name in names:
            yield Finding(("scenarios", number, "name"), f"{name} is the name of two scenarios", "rename one of them")
        names.append(name)
        for place, route in enumerate(_list(scenario, "routes")):
            if captured and route not in captured:
                path = ("scenarios", number, "routes", place)
                yield Finding(
                    path, f"{route} is not in capture.routes", "name a route that is captured, or add it there"
                )


def _hours(data: dict) -> Iterator[Finding]:
    for number, hour in enumerate(_list(_mapping(data, "workload"), "hours")):
        if isinstance(hour, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}-\d{2}:00", hour):
            try:
                datetime.strptime(hour, "%Y-%m-%d-%H:00")
            except ValueError:
                yield Finding(("workload", "hours", number), f"{hour} is no hour of the calendar", "mend the date")


def _token_lifetime(data: dict) -> Iterator[Finding]:
    load, tokens = _mapping(data, "load"), _mapping(data, "tokens")
    ttl_s, skew_s = tokens.get("ttl_s", 3600), tokens.get("skew_s", 30)
    defaults = {"warmup_s": None, "hold_s": None, "request_timeout_s": 5, "max_latency_s": 0.5}
    parts = [load.get(name, default) for name, default in defaults.items()]
    if all(isinstance(part, int | float) for part in (*parts, ttl_s, skew_s)):
        longest_s = sum(part for part in parts if part) + START_AND_END_S
        if ttl_s <= longest_s + skew_s:
            what = f"is {ttl_s:g} s, but a run takes up to {longest_s:g} s and clocks may differ by {skew_s:g} s"
            yield Finding(("tokens", "ttl_s"), what, f"raise it above {longest_s + skew_s:g}, or shorten load.hold_s")


def _programs(data: dict) -> Iterator[Finding]:
    environment = _mapping(data, "environment")
    for process in ("service", "upstream"):
        section = _mapping(environment, process)
        command, env = _list(section, "command"), _mapping(section, "env")
        texts: dict[tuple[str | int, ...], object]
        texts = {("environment", process, "command", number): word for number, word in enumerate(command)}
        texts |= {("environment", process, "env", name): text for name, text in env.items()}
        if command and section.get("port") is None and not any("{port}" in str(text) for text in texts.values()):
            path = ("environment", process, "command")
            yield Finding(path, "is told no port", "put {port} into it or into env, or set `port` to the one it uses")
        if process == "service":
            for number, scenario in enumerate(_list(data, "scenarios")):
                scenario_env = _mapping(scenario, "env") if isinstance(scenario, dict) else {}
                texts |= {("scenarios", number, "env", name): text for name, text in scenario_env.items()}
        for place, text in texts.items():
            if "{upstream_url}" in str(text) and (process == "upstream" or not environment.get("upstream")):
                what = "names {upstream_url}, and there is no upstream before it"
                yield Finding(place, what, "add environment.upstream, or take the placeholder out")


def _mapping(data: dict, name: str) -> dict:
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def _list(data: dict, name: str) -> list:
    value = data.get(name)
    return value if isinstance(value, list) else []


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)
