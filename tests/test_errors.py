"""Problems read as one line with a remedy, and several of them together."""

from perf_pipeline.errors import InputError, Problem


def test_every_problem_is_in_the_message() -> None:
    error = InputError([Problem("plan.yaml:3: name", "is missing", "add the field"), Problem("runs/a", "is empty")])
    assert str(error) == "plan.yaml:3: name: is missing\n    -> add the field\nruns/a: is empty"
