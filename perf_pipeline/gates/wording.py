"""How findings are said: percentages, intervals and lists, the same in every sentence.

What belongs here: turning numbers and names into the words of reasons and headlines. What a number means is decided
where it is computed.
"""

from collections.abc import Iterable

from perf_pipeline.gates.evidence import ERROR_RATES


def change(metric: str, value: float) -> str:
    """A change of a metric: `+3.1 %`, or `+0.08 points` for an error rate, whose changes are differences of shares."""
    return f"{_significant(100 * value)} points" if metric in ERROR_RATES else ratio(value)


def ratio(value: float) -> str:
    """A ratio minus 1: `-2.1 %`."""
    return f"{_one_decimal(100 * value)} %"


def interval(metric: str, low: float, high: float) -> str:
    """An interval of changes: `-4.0 % to +13.1 %`."""
    return f"{change(metric, low)} to {change(metric, high)}"


def size(metric: str, value: float) -> str:
    """A change without its sign, for limits and distances: `5 %`."""
    number, unit = change(metric, abs(value)).lstrip("+").split(" ")
    return f"{number.removesuffix('.0')} {unit}"


def share(value: float) -> str:
    """A share: `2.1 %`, `0.0037 %`."""
    return f"{_significant(100 * value).lstrip('+').removesuffix('.0')} %"


def at_percentile(percentile: float | None) -> str:
    """Where in a distribution: ` at p97.5`; nothing for a number."""
    return "" if percentile is None else f" at p{percentile:g}"


def named(names: Iterable[str], most: int = 3) -> str:
    """A list of names that stays short: `a, b, c and 4 more`."""
    names = list(names)
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 run`, `3 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _one_decimal(value: float) -> str:
    """With sign, to one decimal; zero has none."""
    if abs(value) >= 1e4:
        return f"{value:+.1e}"
    return "0.0" if abs(value) < 0.05 else f"{value:+.1f}"


def _significant(value: float) -> str:
    """With sign, to one decimal; small values to two significant digits, so that they never read as zero."""
    return _one_decimal(value) if abs(value) >= 0.1 or value == 0 else f"{value:+.2g}"
