"""The one exception for a question or an input that is wrong, and the kind of it that may pass by itself.

Code that reads what people wrote or recorded collects every problem it finds and raises them together. The command line
turns an `InputError` into exit code 2 and its message; any other exception is a defect of ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with an input.

    `where` names the file and the line or field, `what` says what was found there, `remedy` says what to do.
    """

    where: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        """The problem as one line, with its remedy on a line of its own."""
        line = f"{self.where}: {self.what}"
        return f"{line}\n    -> {self.remedy}" if self.remedy else line


class InputError(Exception):
    """The question or the input is wrong: a list of problems, each with its place and its remedy."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        """Hold one problem or several."""
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class StoreAwayError(InputError):
    """The object store cannot be reached, or says that it cannot answer now: this may pass by itself.

    Whoever has something to store that took long to make waits; for everybody else it is an InputError.
    """
