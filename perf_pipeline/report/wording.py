"""How findings are said: names of metrics, words and glyphs of verdicts, numbers with units, a sentence a verdict.

What belongs here: every text that more than one form of the report uses, so that the terminal, the Markdown, the page
and the pictures never say the same thing in two ways. Nothing here decides; the gates have.

A change is relative (ratio minus 1, written in %) for latency and memory. For error rates it is a difference of shares,
written in percentage points.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perf_pipeline.gates.evidence import DISTRIBUTIONS, ERROR_RATES, NEGATIVE_CONTROL
from perf_pipeline.gates.findings import Answer, NegativeControl, PercentileChange, Pooled, Verdict, VerdictName

UNKNOWN = "–"
"""Stands where a number does not exist."""

GLYPHS: Mapping[VerdictName, str] = {
    "regression": "▲",
    "improvement": "▼",
    "equivalent": "=",
    "inconclusive": "?",
    "not comparable": "×",
}

ANSWER_GLYPHS: Mapping[Answer, str] = {
    "regression": GLYPHS["regression"],
    "no regression": GLYPHS["equivalent"],
    "not enough evidence": GLYPHS["inconclusive"],
}

MEANINGS: Mapping[VerdictName, str] = {
    "regression": "worse by more than the zone",
    "improvement": "better by more than the zone",
    "equivalent": "any change is smaller than the zone",
    "inconclusive": "no answer yet, the interval crosses an edge of the zone",
    "not comparable": "the data cannot answer, for the reason that is given",
}

_LABELS = {
    "client_latency": "client latency",
    "service_latency": "service latency",
    "service_p99": "service p99",
    "service_memory": "service memory",
    "http_error_rate": "HTTP error rate",
    "graphql_error_rate": "GraphQL error rate",
    "upstream_latency": "upstream latency",
}
_METRIC_NAMES = re.compile(rf"\b({'|'.join(_LABELS)})\b")
_MINUS = re.compile(r"(?<![\w.-])-(?=\d[\d.]*(?:e[+-]\d+)? (?:%|points))")
_WORSE_BETTER = {"service_memory": ("More", "Less"), **dict.fromkeys(ERROR_RATES, ("More", "Fewer"))}
_PLAIN_BELOW = 1e6
"""Larger numbers are written with an exponent, so that they cannot burst a table."""
_BYTES = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def metric_label(metric: str) -> str:
    """The name of a metric as people read it: `http_error_rate` is "HTTP error rate"."""
    return _LABELS.get(metric, metric.replace("_", " "))


def metric_heading(metric: str) -> str:
    """The name of a metric, with the remark that the negative control needs."""
    return metric_label(metric) + (" (negative control)" if metric == NEGATIVE_CONTROL else "")


def prose(text: str) -> str:
    """A sentence of the gates as a reader expects it: metrics by their label, and a minus sign that is not a hyphen."""
    return _MINUS.sub("−", _METRIC_NAMES.sub(lambda found: _capital(_LABELS[found[0]], found.start() == 0), text))


def sentence(text: str) -> str:
    """A message or a reason of the gates, which are parts of sentences, as a sentence of its own."""
    whole = _capital(prose(text.strip()), True)
    return whole if not whole or whole[-1] in ".!?" else f"{whole}."


def control_sentence(control: NegativeControl) -> str:
    """What the negative control did, without the word of its status, which stands beside it."""
    return sentence(control.message.removeprefix(f"{control.status}: "))


def is_distribution(metric: str) -> bool:
    """Whether the metric is judged percentile by percentile."""
    return metric in DISTRIBUTIONS


def change_unit(metric: str) -> str:
    """The unit that changes of the metric are written in: "%" or (percentage) "points"."""
    return "points" if metric in ERROR_RATES else "%"


def finite(value: float | None) -> float | None:
    """The value, or None when there is none or when it is not a finite number."""
    return value if value is not None and math.isfinite(value) else None


def signed(value: float | None, decimals: int) -> str:
    """A ratio or a share in hundredths with its sign and without a unit: 0.1834 is "+18.3"."""
    if value is None or (hundredths := finite(value * 100)) is None:
        return UNKNOWN
    text = f"{hundredths:+.{decimals}f}" if abs(hundredths) < _PLAIN_BELOW else f"{hundredths:+.1e}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def change(metric: str, value: float | None, decimals: int | None = None) -> str:
    """A change of the metric with its unit: "+18.3 %", "+0.012 points"."""
    text = signed(value, _default_decimals(metric) if decimals is None else decimals)
    return text if text == UNKNOWN else f"{text} {change_unit(metric)}"


def edge(metric: str, value: float | None) -> str:
    """An edge of the zone with its unit and no more decimals than it needs: "+10 %", "−9.1 %"."""
    text = signed(value, _default_decimals(metric))
    if text == UNKNOWN:
        return text
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {change_unit(metric)}"


def zone(metric: str, low: float | None, high: float | None) -> str:
    """The zone in one text: "±0.05 points" when it is the same to both sides, else "−9.1 % to +10 %"."""
    if finite(low) is None or finite(high) is None:
        return UNKNOWN
    below, above = edge(metric, low), edge(metric, high)
    return f"±{above[1:]}" if below[1:] == above[1:] else f"{below} to {above}"


@dataclass(frozen=True)
class ChangeText:
    """The numbers of one verdict as text with equal decimals. Only `change` carries its unit."""

    change: str
    low: str
    high: str

    @property
    def interval(self) -> str:
        """The interval of the change: "[+15.9, +20.8]"; a dash when there is none."""
        return UNKNOWN if UNKNOWN in (self.low, self.high) else f"[{self.low}, {self.high}]"


def change_text(verdict: Verdict) -> ChangeText:
    """The change and its interval, with the decimals it takes to see on which side of the zone's edge an end lies."""
    decimals = _default_decimals(verdict.metric)
    edges = [edge for edge in map(finite, (verdict.zone_low, verdict.zone_high)) if edge is not None]
    ends = [end for end in map(finite, (verdict.low, verdict.high)) if end is not None]
    while decimals < 4 and any(
        end != edge and signed(end, decimals) == signed(edge, decimals) for end in ends for edge in edges
    ):
        decimals += 1
    return ChangeText(
        change(verdict.metric, verdict.estimate, decimals),
        signed(verdict.low, decimals),
        signed(verdict.high, decimals),
    )


def interval_with_units(metric: str, low: float | None, high: float | None) -> str:
    """An interval on its own: "−0.9 % to +0.7 %"."""
    return (
        UNKNOWN if finite(low) is None or finite(high) is None else f"{change(metric, low)} to {change(metric, high)}"
    )


def bracketed(metric: str, low: float | None, high: float | None) -> str:
    """An interval beside a change that carries the unit: "[−0.9, +0.7]"."""
    if finite(low) is None or finite(high) is None:
        return UNKNOWN
    decimals = _default_decimals(metric)
    return f"[{signed(low, decimals)}, {signed(high, decimals)}]"


def quantity(value: float | None, unit: str) -> str:
    """A measured value with its unit, to three digits: "12.3 ms", "84.1 MiB", "0.12 %"."""
    if (known := finite(value)) is None:
        return UNKNOWN
    if unit in ("bytes", "B", "byte"):
        for name, size in _BYTES:
            if abs(known) >= size:
                return f"{_three_digits(known / size)} {name}"
    if unit in ("ratio", "share"):
        return f"{_three_digits(known * 100)} %"
    return f"{_three_digits(known)} {unit}".rstrip()


def baseline_to_candidate(verdict: Verdict) -> str:
    """The measured values of both sides: "12.3 ms → 14.6 ms"; a dash when neither is known."""
    sides = [quantity(value, verdict.unit) for value in (verdict.baseline_value, verdict.candidate_value)]
    return UNKNOWN if sides == [UNKNOWN, UNKNOWN] else " → ".join(sides)


def percentile_label(p: float | None) -> str:
    """A percentile as people write it: "p97.5"; empty when there is none."""
    return "" if finite(p) is None else f"p{p:g}"


def verdict_word(verdict: Verdict) -> str:
    """The word of the verdict; "absent" when the plan names no source for the metric."""
    return "absent" if verdict.absent else verdict.verdict


def side_of_zone(low: float, high: float, verdict: Verdict) -> str:
    """Where an interval lies: "inside the zone", "above the zone", "below the zone", "crosses an edge", ""."""
    zone_low, zone_high = finite(verdict.zone_low), finite(verdict.zone_high)
    if zone_low is None or zone_high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    if zone_low <= low and high <= zone_high:
        return "inside the zone"
    if low > zone_high:
        return "above the zone"
    return "below the zone" if high < zone_low else "crosses an edge"


def finding(verdict: Verdict) -> str:
    """What the verdict says, in one sentence that starts with the finding itself and never repeats the word."""
    if verdict.absent:
        return sentence(verdict.reason) or "The plan names no source for this metric."
    if verdict.verdict == "not comparable" or finite(verdict.low) is None or finite(verdict.high) is None:
        return sentence(verdict.reason) or "No interval could be computed."
    text = change_text(verdict)
    at = f" at {percentile_label(verdict.deciding_percentile)}" if percentile_label(verdict.deciding_percentile) else ""
    if verdict.verdict in ("regression", "improvement"):
        worse, better = _WORSE_BETTER.get(verdict.metric, ("Slower", "Faster"))
        way = worse if verdict.verdict == "regression" else better
        beyond = _percentiles_beyond(verdict)
        where = f"; beyond the zone at {beyond}" if beyond else ", beyond the zone"
        return f"{way}: {text.change} {text.interval}{at}{where}."
    if verdict.verdict == "equivalent":
        if verdict.percentiles:
            return f"Inside the zone at every percentile; nearest to its edge{at}: {text.change} {text.interval}."
        return f"Inside the zone: {text.change} {text.interval}."
    return _open_question(verdict, at)


def pooled_label(pooled: Pooled) -> str:
    """What was pooled: "client latency p95", "service memory"."""
    return metric_label(pooled.metric) + ("" if pooled.statistic == "value" else f" {pooled.statistic}")


def what_it_would_take(verdict: Verdict) -> str:
    """What would settle an inconclusive verdict; empty for every other one."""
    if verdict.verdict != "inconclusive":
        return ""
    if verdict.repeats_to_settle is None:
        return "More repeats alone would not settle it."
    return f"About {verdict.repeats_to_settle} repeats per version would settle it if the noise stays as it is."


def plural(count: int, one: str, many: str = "") -> str:
    """A count with its noun: "1 run", "3 runs"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def counted(count: int, verdict: VerdictName) -> str:
    """How many verdicts there are of a kind: "2 regressions", "8 equivalent"."""
    return plural(count, verdict, f"{verdict}s" if verdict in ("regression", "improvement") else verdict)


def listed(words: Sequence[str]) -> str:
    """Words as a list in a sentence: "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _open_question(verdict: Verdict, at: str) -> str:
    ends = [finite(value) for value in (verdict.low, verdict.high, verdict.zone_low, verdict.zone_high)]
    low, high, zone_low, zone_high = ends
    if low is None or high is None or zone_low is None or zone_high is None:
        return sentence(verdict.reason)
    crossed = [edge(verdict.metric, limit) for limit in (zone_low, zone_high) if low < limit < high]
    if not crossed:
        return sentence(verdict.reason)
    between = f"Somewhere between {change(verdict.metric, low)} and {change(verdict.metric, high)}{at}"
    return f"{between}; the zone ends at {listed(crossed)}."


def _percentiles_beyond(verdict: Verdict) -> str:
    """The percentiles whose simultaneous band lies beyond the zone on the verdict's side, as ranges: "p40 to p99"."""
    zone_low, zone_high = finite(verdict.zone_low), finite(verdict.zone_high)
    if zone_low is None or zone_high is None:
        return ""

    def beyond(point: PercentileChange) -> bool:
        return point.band_low > zone_high if verdict.verdict == "regression" else point.band_high < zone_low

    ranges: list[list[str]] = []
    before = False
    for point in verdict.percentiles:
        if now := beyond(point):
            if not before:
                ranges.append([])
            ranges[-1].append(percentile_label(point.p))
        before = now
    return listed([group[0] if len(group) == 1 else f"{group[0]} to {group[-1]}" for group in ranges]) if ranges else ""


def _capital(text: str, wanted: bool) -> str:
    return text[:1].upper() + text[1:] if wanted else text


def _default_decimals(metric: str) -> int:
    return 3 if metric in ERROR_RATES else 1


def _three_digits(value: float) -> str:
    if value == 0 or not 1e-6 <= abs(value) < _PLAIN_BELOW:
        return f"{value:.3g}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
