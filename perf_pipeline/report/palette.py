"""The colours of every report, by meaning, in light and in dark.

What belongs here: one table of colours that the page, the pictures and the terminal share. A colour never carries a
meaning alone: each verdict also has its word and its glyph (`wording`). A filled mark is an answer and a hollow one is
none. The tones are vermilion, blue, green and ochre, kept apart in lightness as well as in hue so that they differ for
people with red-green or blue-yellow colour blindness; a test holds the contrast (WCAG 2.2, 4.5 : 1 for text) and the
distance between tones as they are seen.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from perf_pipeline.gates.findings import Answer, VerdictName

Tone: TypeAlias = Literal["regression", "improvement", "equivalent", "inconclusive", "none"]
"""The five tones of a report; "none" is for what has no answer because nothing could be compared."""

LIGHT: Mapping[str, str] = {
    "page": "#f6f6f3",
    "surface": "#ffffff",
    "text": "#1b1f24",
    "muted": "#57606a",
    "line": "#d8dbdf",
    "zone": "#e3e8ec",
    "zone-edge": "#8a949e",
    "focus": "#0b57d0",
    "regression": "#b3320a",
    "regression-tint": "#fdebe3",
    "improvement": "#1257a8",
    "improvement-tint": "#e6f0fb",
    "equivalent": "#13795b",
    "equivalent-tint": "#e7f4ef",
    "inconclusive": "#7d5700",
    "inconclusive-tint": "#fcf2d9",
    "none": "#57606a",
    "none-tint": "#eeeff1",
}

DARK: Mapping[str, str] = {
    "page": "#0f1316",
    "surface": "#171c20",
    "text": "#e7eaed",
    "muted": "#a4aeb8",
    "line": "#343c44",
    "zone": "#2b333a",
    "zone-edge": "#7b8791",
    "focus": "#8ab4f8",
    "regression": "#ff8f66",
    "regression-tint": "#3b2017",
    "improvement": "#7fb6f5",
    "improvement-tint": "#15283c",
    "equivalent": "#5fcaa6",
    "equivalent-tint": "#13302a",
    "inconclusive": "#e6c05c",
    "inconclusive-tint": "#332b14",
    "none": "#a4aeb8",
    "none-tint": "#242a30",
}

_TONE_OF_VERDICT: Mapping[VerdictName, Tone] = {
    "regression": "regression",
    "improvement": "improvement",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
    "not comparable": "none",
}
_TONE_OF_ANSWER: Mapping[Answer, Tone] = {
    "regression": "regression",
    "no regression": "equivalent",
    "not enough evidence": "inconclusive",
}


def tone_of_verdict(verdict: VerdictName) -> Tone:
    """The tone that a verdict is drawn in."""
    return _TONE_OF_VERDICT[verdict]


def tone_of_answer(answer: Answer) -> Tone:
    """The tone that a decision is written in."""
    return _TONE_OF_ANSWER[answer]


def css_variables(theme: Mapping[str, str]) -> str:
    """The theme as CSS custom properties, such as `--text:#1b1f24;`."""
    return "".join(f"--{name}:{colour};" for name, colour in theme.items())
