"""Shapes become SVG and PNG with the same content."""

import io
import xml.etree.ElementTree as ElementTree

import numpy as np
from PIL import Image

from perf_pipeline.report.palette import LIGHT
from perf_pipeline.report.picture import STYLES, Area, Dot, Label, Picture, Stroke, chart_css

NASTY = "<b>&\"'"
SVG = "{http://www.w3.org/2000/svg}"


def picture(*shapes: Area | Stroke | Dot | Label) -> Picture:
    return Picture(f"subject {NASTY}", f"title {NASTY}", f"words {NASTY}", 200, 100, shapes)


def test_an_svg_file_is_xml_with_title_words_and_text_as_text() -> None:
    root = ElementTree.fromstring(picture(Label("label", (10, 20), NASTY)).svg_file())
    assert root.findtext(f"{SVG}title") == f"subject {NASTY}: title {NASTY}"
    assert root.findtext(f"{SVG}desc") == f"words {NASTY}"
    assert NASTY in [element.text for element in root.iter(f"{SVG}text")]


def test_an_svg_in_a_page_is_named_for_those_who_do_not_see_it() -> None:
    svg = picture().svg("here")
    assert 'role="img" aria-labelledby="here-t here-d"' in svg
    assert '<title id="here-t">' in svg
    assert NASTY not in svg


def test_a_mark_beside_its_text_is_hidden_from_screen_readers() -> None:
    assert 'aria-hidden="true"' in picture().decorative_svg()


def test_one_tone_is_named_once_and_several_at_each_shape() -> None:
    red, blue = Dot("dot", (1, 1), 2, "regression"), Dot("dot", (5, 5), 2, "improvement")
    assert picture(red, red).svg("x").count("tone-regression") == 1
    both = picture(red, blue).svg("x")
    assert both.count("tone-regression") == 1
    assert both.count("tone-improvement") == 1


def test_every_role_has_its_style_and_colours_come_from_the_theme() -> None:
    css = chart_css()
    assert all(f".chart .{role}{{" in css for role in STYLES)
    assert "#" not in css
    names = {style.fill for style in STYLES.values()} | {style.stroke for style in STYLES.values()}
    assert names - {"", "tone"} <= set(LIGHT)


def test_the_png_shows_the_same_shapes_at_twice_the_size() -> None:
    box = Area("zone", ((50, 20), (150, 20), (150, 80), (50, 80)))
    dot = Dot("dot", (100, 50), 10, "regression")
    image = Image.open(io.BytesIO(picture(box, dot).png())).convert("RGB")
    heading = image.height // 2 - 100
    assert (image.width, heading > 0) == (400, True)
    pixels = np.asarray(image)

    def colour_at(x: float, y: float) -> str:
        return "#{:02x}{:02x}{:02x}".format(*pixels[int((y + heading) * 2), int(x * 2)])

    assert colour_at(60, 30) == LIGHT["zone"]
    assert colour_at(100, 50) == LIGHT["regression"]
    assert colour_at(20, 50) == LIGHT["surface"]


def test_the_png_is_the_same_each_time() -> None:
    drawn = picture(Label("finding", (10, 20), "p99 $x^2$", tone="equivalent"))
    assert drawn.png() == drawn.png()
