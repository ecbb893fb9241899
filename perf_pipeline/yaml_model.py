"""YAML files that people write, read into pydantic models.

What belongs here: turning YAML text into a model, and every error into a problem with its line and field path. What the
fields mean is in the modules that define the models: `plan` and `gates.policy`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import NamedTuple, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from perf_pipeline.errors import InputError, Problem

Model = TypeVar("Model", bound=BaseModel)


class Finding(NamedTuple):
    """Something wrong in what a file holds, by its path such as `("scenarios", 0, "name")`."""

    path: tuple[str | int, ...]
    what: str
    remedy: str


def parse_yaml_model(
    model: type[Model],
    text: str,
    name: str,
    rules: Callable[[dict], Iterable[Finding]] = lambda _: (),
    example: str = "the demo plan",
) -> Model:
    """Parse YAML text into a pydantic model; `name` is what messages call the file, `example` one that is right.

    `rules` find in the plain data what the model cannot, also where parts of it are wrong. Raises InputError with every
    error at once in the order of the lines, each as `name:line: field.path`.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # a date such as 2026-99-99 is a ValueError
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        what = getattr(error, "problem", None) or str(error)
        raise InputError(Problem(where, f"is not YAML: {what}", f"mend the line, or compare with {example}")) from error
    if not isinstance(data, dict):
        raise InputError(Problem(name, "is empty or not a mapping", f"start from a copy of {example}"))
    problems = [(_line(root, finding.path), _rule_broken(finding, root, name)) for finding in rules(data)]
    by_rules = bool(problems)
    problems += _doubled_keys(root, name)
    parsed = None
    try:
        parsed = model.model_validate(data)
    except ValidationError as error:
        # What the whole model finds, the rules have found already, and said where.
        details = [detail for detail in error.errors() if detail["loc"] or not by_rules]
        problems += [(_line(root, detail["loc"]), _problem(detail, root, name)) for detail in details]
    if problems or parsed is None:
        raise InputError(problem for _, problem in sorted(problems, key=lambda item: item[0]))
    return parsed


def _rule_broken(finding: Finding, root: yaml.Node | None, name: str) -> Problem:
    return Problem(f"{name}:{_line(root, finding.path)}: {_field(finding.path)}", finding.what, finding.remedy)


def _field(path: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _problem(detail: ErrorDetails, root: yaml.Node | None, name: str) -> Problem:
    """One pydantic error as a problem with the line that it stands on."""
    path = detail["loc"]
    field = _field(path)
    where = f"{name}:{_line(root, path)}" + (f": {field}" if field else "")
    kind, what = detail["type"], detail["msg"].removeprefix("Value error, ")
    if kind == "missing":
        return Problem(where, "is missing", "add the field")
    if kind == "extra_forbidden":
        return Problem(where, "is not a known field", "check the spelling, or remove it")
    shown = "" if kind == "value_error" else f" (it is {_shown(detail.get('input'))})"
    return Problem(where, f"{what[0].lower()}{what[1:]}{shown}", _remedy(detail))


def _remedy(detail: ErrorDetails) -> str:
    """What to write instead of a value that does not fit."""
    kind, limits = detail["type"], detail.get("ctx", {})
    if kind == "string_type" and isinstance(detail.get("input"), int | float | date):
        return f'quote it: "{detail.get("input")}"'
    for name, words in (("ge", "{} or more"), ("gt", "more than {}"), ("le", "{} or less"), ("lt", "less than {}")):
        if name in limits:
            return f"write {words.format(limits[name])}"
    kinds = {"int": "a whole number", "float": "a number", "bool": "true or false", "string": "a text",
             "list": "a list", "dict": "a mapping", "model": "a mapping", "too": "at least one"}  # fmt: skip
    return f"write {kinds[kind.split('_')[0]]}" if kind.split("_")[0] in kinds else "mend the value"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _line(node: yaml.Node | None, path: Sequence[str | int]) -> int:
    """The line, from 1, of the deepest node on the path that the file holds."""
    line = node.start_mark.line if node else 0
    for part in path:
        if isinstance(node, yaml.MappingNode):
            pairs = {key.value: (key, value) for key, value in node.value}
            if str(part) not in pairs:
                break
            key, node = pairs[str(part)]
            line = key.start_mark.line
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line
        else:
            break
    return line + 1


def _doubled_keys(root: yaml.Node | None, name: str) -> Iterator[tuple[int, Problem]]:
    """The line of each key that stands twice in one mapping: YAML would silently keep the last."""
    seen_nodes: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen_nodes:  # an alias may point back at the node that holds it
            continue
        seen_nodes.add(id(node))
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, _ in node.value:
                if key.value in seen:
                    line = key.start_mark.line + 1
                    yield line, Problem(f"{name}:{line}: {key.value}", "stands twice", "keep one of them")
                seen.add(key.value)
            waiting.extend(value for _, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
