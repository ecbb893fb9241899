"""What a person tells of results that do not say it themselves: target rate, warm-up, hold, unit.

What belongs here: these values, and reading them from the texts of a command line. What a result makes of them is in
the module of its form.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from perf_pipeline.errors import InputError, Problem
from perf_pipeline.gates import wording

UNITS_PER_MS: Mapping[str, float] = {"ns": 1e6, "us": 1e3, "ms": 1.0, "s": 1e-3}
"""Units of recorded values, and how many of each make a millisecond."""

TAG_SEPARATOR = "/"
"""Between a scenario and the tag of a log that holds several distributions: `browse/READ` is a scenario of its own."""

_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_FOR_ALL = ""


@dataclass(frozen=True)
class Told:
    """What was told; None where nothing was."""

    rates_per_s: Mapping[str, float] = field(default_factory=dict)
    """Target rate by scenario; under the empty name that of every other one."""
    warmup_s: float | None = None
    """Seconds from the start of the load that are no part of the hold."""
    hold_s: float | None = None
    """Length of the hold; to the end of the load when None."""
    unit: str | None = None
    """Unit of the values of forms that do not carry it, a key of UNITS_PER_MS."""

    def rate_per_s(self, scenario: str) -> float | None:
        """The target rate of a scenario.

        One that was told for every scenario is the rate of a whole load: it says nothing of one tag of a log.
        """
        whole = None if TAG_SEPARATOR in scenario else self.rates_per_s.get(_FOR_ALL)
        return self.rates_per_s.get(scenario, whole)


NOTHING_TOLD = Told()


def told_in_vain(told: Told, scenarios: Collection[str]) -> Iterator[Problem]:
    """What was told and is of no use to results of these scenarios: a slip would go unseen.

    `scenarios` are those of the results of other load generators that were found.
    """
    if not scenarios:
        given = {"--rate": told.rates_per_s, "--warmup": told.warmup_s, "--hold": told.hold_s, "--unit": told.unit}
        for option in (option for option, value in given.items() if value not in (None, {})):
            what = "is for results of other load generators, and there are none"
            yield Problem(option, what, "leave it out: run directories say this themselves")
        return
    for scenario in sorted(told.rates_per_s.keys() - {_FOR_ALL, *scenarios}):
        what = f"there are no results of scenario {scenario}"
        yield Problem("--rate", what, f"there are results of {wording.named(sorted(scenarios), most=10)}")


def parse_told(
    rates: Iterable[str] = (), warmup: str | None = None, hold: str | None = None, unit: str | None = None
) -> Told:
    """What the texts of a command line tell. Raises InputError with everything that is wrong with them."""
    problems: list[Problem] = []
    rates_per_s = {}
    for text in rates:
        scenario, separator, number = text.rpartition("=")
        rate = _positive(number)
        if rate is None or (separator and not scenario):
            remedy = "requests per second, such as 500, or of one scenario, such as browse=500"
            problems.append(Problem("--rate", f"{text!r} is no rate", remedy))
        elif scenario in rates_per_s:
            which = f"of {scenario} " if scenario else ""
            problems.append(Problem("--rate", f"the rate {which}is given twice", "keep one of them"))
        else:
            rates_per_s[scenario] = rate
    lengths = {}
    for option, given, lowest in (("--warmup", warmup, 0.0), ("--hold", hold, math.ulp(0.0))):
        seconds = None if given is None else parse_seconds(given)
        if given is not None and (seconds is None or seconds < lowest):
            remedy = "seconds such as 30, or a length such as 2m30s"
            problems.append(Problem(option, f"{given!r} is no length of time", remedy))
        lengths[option] = seconds
    if unit is not None and unit not in UNITS_PER_MS:
        problems.append(Problem("--unit", f"{unit!r} is not known", f"one of {', '.join(UNITS_PER_MS)}"))
    if problems:
        raise InputError(problems)
    return Told(rates_per_s, lengths["--warmup"], lengths["--hold"], unit)


def parse_seconds(text: str) -> float | None:
    """Seconds of `30`, `1.5`, `30s` or `2m30s`; None of anything else."""
    number = _number(text)
    if number is not None:
        return number
    parts = _PART.findall(text)
    whole = "".join(amount + unit for amount, unit in parts)
    return sum(float(amount) * _SECONDS[unit] for amount, unit in parts) if parts and whole == text else None


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else None


def _positive(text: str) -> float | None:
    number = _number(text)
    return number if number else None
