"""Colours can be read, and told apart by people who see fewer of them."""

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pytest

from perf_pipeline.report.palette import DARK, LIGHT, css_variables

TONES = ("regression", "improvement", "equivalent", "inconclusive")

# Machado, Oliveira and Fernandes (2009), severity 1.0, on linear RGB.
VISION = {
    "full": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour: str) -> np.ndarray:
    channels = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(first: str, second: str) -> float:
    """WCAG 2.2 contrast ratio."""
    light, dark = sorted((float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (first, second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* under D65."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    x, y, z = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read_on_every_ground(theme: Mapping[str, str]) -> None:
    for ground in ("page", "surface", "zone"):
        for text in ("text", "muted"):
            assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)
    for tone in (*TONES, "none"):
        for ground in ("page", "surface", f"{tone}-tint"):
            assert contrast(theme[tone], theme[ground]) >= 4.5, (tone, ground)
        assert contrast(theme["text"], theme[f"{tone}-tint"]) >= 4.5, tone
        assert contrast(theme["muted"], theme[f"{tone}-tint"]) >= 4.5, tone


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_marks_stand_out_from_the_zone_behind_them(theme: Mapping[str, str]) -> None:
    for tone in (*TONES, "none"):
        assert contrast(theme[tone], theme["zone"]) >= 3, tone
    assert contrast(theme["focus"], theme["page"]) >= 3


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_an_answer_never_looks_like_the_opposite_answer(theme: Mapping[str, str], vision: str) -> None:
    seen = {tone: lab(np.array(VISION[vision]) @ linear(theme[tone])) for tone in TONES}
    for first, second in combinations(("regression", "improvement", "equivalent"), 2):
        assert np.linalg.norm(seen[first] - seen[second]) > 12, (first, second)


def test_both_themes_name_the_same_colours() -> None:
    assert set(LIGHT) == set(DARK)
    assert css_variables({"text": "#000000"}) == "--text:#000000;"
