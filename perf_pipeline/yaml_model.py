"""YAML files that people write, read into pydantic models.

What belongs here: turning YAML text into a model, and every error into a problem with its line and field path. What the
fields mean is in the modules that define the models: `plan` and `gates.policy`.
"""

from collections.abc import Iterator
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from perf_pipeline.errors import InputError, Problem

Model = TypeVar("Model", bound=BaseModel)


def parse_yaml_model(model: type[Model], text: str, name: str) -> Model:
    """Parse YAML text into a pydantic model; `name` is what messages call the file.

    Raises InputError with every error at once, each as `name:line: field.path`.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # a date such as 2026-99-99 is a ValueError
        mark = getattr(error, "problem_mark", None)
        where = f"{name}:{mark.line + 1}" if mark else name
        what = getattr(error, "problem", None) or str(error)
        raise InputError(
            Problem(where, f"is not YAML: {what}", "mend the line, or compare with the demo plan")
        ) from error
    if doubled := list(_doubled_keys(root, name)):
        raise InputError(doubled)
    if not isinstance(data, dict):
        raise InputError(Problem(name, "is empty or not a mapping", "start from a copy of the demo plan"))
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError(_problem(detail, root, name) for detail in error.errors()) from error


def _problem(detail: ErrorDetails, root: yaml.Node | None, name: str) -> Problem:
    """One pydantic error as a problem with the line that it stands on."""
    path = list(detail["loc"])
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    where = f"{name}:{_line(root, path)}" + (f": {field}" if field else "")
    kind, what = detail["type"], detail["msg"].removeprefix("Value error, ")
    if kind == "missing":
        return Problem(where, "is missing", "add the field")
    if kind == "extra_forbidden":
        return Problem(where, "is not a known field", "check the spelling, or remove it")
    shown = "" if kind == "value_error" else f" (it is {_shown(detail.get('input'))})"
    return Problem(where, f"{what[0].lower()}{what[1:]}{shown}", "")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _line(node: yaml.Node | None, path: list) -> int:
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


def _doubled_keys(root: yaml.Node | None, name: str) -> Iterator[Problem]:
    """Each key that stands twice in one mapping: YAML would silently keep the last."""
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
                    yield Problem(f"{name}:{key.start_mark.line + 1}: {key.value}", "stands twice", "keep one of them")
                seen.add(key.value)
            waiting.extend(value for _, value in node.value)
        elif isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
