"""A picture as shapes with meanings, drawn as SVG for the page and as PNG for where SVG cannot go.

What belongs here: the shapes, what each role looks like, and the two renderers. What a picture shows is in `plots`.

A picture is described once, in pixels, by roles such as "zone" or "band". The SVG names the roles as CSS classes, keeps
text as text, and takes its colours from custom properties, so that one small file serves light, dark and print. The PNG
is drawn by matplotlib from the same shapes (Agg, no global state), so that Dagster shows the very same picture.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from textwrap import wrap
from typing import Literal, TypeAlias

from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Polygon

from perf_pipeline.report.palette import DARK, LIGHT, Tone, css_variables

Point: TypeAlias = tuple[float, float]
TONE = "tone"
"""Stands in a style for the colour of the shape's own tone."""

_PNG_PIXELS_PER_INCH = 100
_PNG_SCALE = 2


@dataclass(frozen=True)
class Style:
    """How a role is drawn: colours by their name in the palette, or TONE."""

    fill: str = ""
    opacity: float = 1.0
    stroke: str = ""
    width: float = 1.0
    dash: tuple[int, int] | None = None
    size_px: int = 12
    bold: bool = False
    halo: bool = False


STYLES: Mapping[str, Style] = {
    "zone": Style(fill="zone"),
    "edge": Style(stroke="zone-edge", dash=(4, 3)),
    "grid": Style(stroke="line"),
    "zero": Style(stroke="muted"),
    "band": Style(fill=TONE, opacity=0.18),
    "interval": Style(fill=TONE, opacity=0.32),
    "line": Style(stroke=TONE, width=2),
    "run-baseline": Style(stroke="muted", opacity=0.6),
    "run-candidate": Style(stroke=TONE, opacity=0.75, dash=(4, 2)),
    "run-left-out": Style(stroke="text", dash=(1, 3)),
    "dot": Style(fill=TONE, stroke=TONE, width=1.5),
    "open": Style(fill="surface", stroke=TONE, width=1.5),
    "tick": Style(fill="muted"),
    "note": Style(fill="muted", halo=True),
    "label": Style(fill="text"),
    "title": Style(fill="text", size_px=15, bold=True),
    "finding": Style(fill=TONE, bold=True, halo=True),
}


@dataclass(frozen=True)
class Area:
    """A filled polygon."""

    role: str
    points: tuple[Point, ...]
    tone: Tone | None = None


@dataclass(frozen=True)
class Stroke:
    """A line through points."""

    role: str
    points: tuple[Point, ...]
    tone: Tone | None = None


@dataclass(frozen=True)
class Dot:
    """A round mark: role "dot" is an answer, role "open" is none."""

    role: str
    centre: Point
    radius: float
    tone: Tone | None = None


@dataclass(frozen=True)
class Label:
    """A text whose baseline starts, is centred or ends at a point."""

    role: str
    at: Point
    text: str
    anchor: Literal["start", "middle", "end"] = "start"
    tone: Tone | None = None


@dataclass(frozen=True)
class Lines:
    """Several lines that look alike, such as those of single runs."""

    role: str
    lines: tuple[tuple[Point, ...], ...]
    tone: Tone | None = None


Shape: TypeAlias = Area | Stroke | Dot | Label | Lines


@dataclass(frozen=True)
class Picture:
    """A picture with its finding as title and its content in words."""

    subject: str
    """What is shown, such as "browse, client latency"."""
    title: str
    """The finding, one sentence."""
    description: str
    """What a reader sees, for those who do not see it."""
    width: int
    height: int
    shapes: tuple[Shape, ...]

    def svg(self, name: str) -> str:
        """The picture as an SVG element for a page that carries `chart_css` and the colours.

        `name` makes the ids of the title and the description unique in the page. The finding stands beside the picture
        there, so the drawing holds no title of its own.
        """
        tone, body = _svg_body(self.shapes)
        named = escape(name)
        return (
            f'<svg class="chart{tone}" viewBox="0 0 {self.width} {self.height}" role="img"'
            f' aria-labelledby="{named}-t {named}-d">'
            f'<title id="{named}-t">{escape(f"{self.subject}: {self.title}")}</title>'
            f'<desc id="{named}-d">{escape(self.description)}</desc>{body}</svg>'
        )

    def decorative_svg(self) -> str:
        """The picture for a place where the text beside it says all of it: hidden from screen readers."""
        tone, body = _svg_body(self.shapes)
        return (
            f'<svg class="chart mark{tone}" viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
            f' height="{self.height}" aria-hidden="true" focusable="false">{body}</svg>'
        )

    def svg_file(self) -> bytes:
        """The picture as an SVG file of its own, with its title and with colours for light and dark."""
        heading, top = self._heading()
        style = (
            f"svg{{{css_variables(LIGHT)}background:var(--surface);font-family:system-ui,sans-serif}}"
            f"@media(prefers-color-scheme:dark){{svg{{{css_variables(DARK)}}}}}{chart_css()}"
        )
        tone, body = _svg_body((*heading, *self.shapes))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="chart{tone}" role="img"'
            f' viewBox="0 {-top} {self.width} {self.height + top}" width="{self.width}" height="{self.height + top}">'
            f"<title>{escape(f'{self.subject}: {self.title}')}</title>"
            f"<desc>{escape(self.description)}</desc><style>{style}</style>{body}</svg>"
        ).encode()

    def png(self) -> bytes:
        """The picture as a PNG file in the light theme, with its title, at twice its size in pixels."""
        heading, top = self._heading()
        height = self.height + top
        figure = Figure(
            figsize=(self.width / _PNG_PIXELS_PER_INCH, height / _PNG_PIXELS_PER_INCH), facecolor=LIGHT["surface"]
        )
        canvas = FigureCanvasAgg(figure)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set_xlim(0, self.width)
        axes.set_ylim(self.height, -top)
        for order, shape in enumerate((*heading, *self.shapes)):
            _draw(axes, shape, order)
        buffer = io.BytesIO()
        figure.set_dpi(_PNG_PIXELS_PER_INCH * _PNG_SCALE)
        canvas.print_png(buffer, metadata={"Title": self.title, "Software": None})
        return buffer.getvalue()

    def _heading(self) -> tuple[tuple[Label, ...], int]:
        """Subject and title as labels above the picture, and the height that they take."""
        lines = wrap(self.title, max(20, int(self.width / 9.6))) or [""]
        height = 26 + 20 * len(lines)
        labels = [Label("tick", (8, -height + 18), self.subject)]
        labels += [Label("title", (8, -height + 38 + 20 * number), line) for number, line in enumerate(lines)]
        return tuple(labels), height


def chart_css() -> str:
    """The style of every role, with colours as custom properties, and the tones."""
    rules = [f".chart{{font-size:{Style().size_px}px}}"]
    for role, style in STYLES.items():
        rule = [f"fill:{_css_colour(style.fill)}"]
        if style.opacity != 1:
            rule.append(f"opacity:{style.opacity:g}")
        if style.stroke:
            rule.append(f"stroke:{_css_colour(style.stroke)};stroke-width:{style.width:g}")
        if style.dash:
            rule.append(f"stroke-dasharray:{style.dash[0]} {style.dash[1]}")
        if style.size_px != Style().size_px:
            rule.append(f"font-size:{style.size_px}px")
        if style.bold:
            rule.append("font-weight:600")
        if style.halo:
            rule.append("paint-order:stroke;stroke:var(--surface);stroke-width:3px;stroke-linejoin:round")
        rules.append(f".chart .{role}{{{';'.join(rule)}}}")
    # Dots that look alike are one path of points with round ends; hollow ones are covered by their middle.
    rules.append(".chart .dots{fill:none;stroke:var(--tone);stroke-linecap:round}")
    rules.append(".chart .holes{fill:none;stroke:var(--surface);stroke-linecap:round}")
    tones: tuple[Tone, ...] = ("regression", "improvement", "equivalent", "inconclusive", "none")
    rules += [f".tone-{tone}{{--tone:var(--{tone});--tint:var(--{tone}-tint)}}" for tone in tones]
    return "".join(rules)


def _css_colour(name: str) -> str:
    return f"var(--{name})" if name else "none"


def _svg_body(shapes: Sequence[Shape]) -> tuple[str, str]:
    """The class of the picture's tone and the shapes; where there is one tone only, no shape needs to name it."""
    tones = {shape.tone for shape in shapes if shape.tone}
    body = ""
    for (role, tone), alike in groupby(shapes, key=lambda shape: (shape.role, shape.tone)):
        names = f"{role}{'' if len(tones) == 1 or not tone else f' tone-{tone}'}"
        body += _svg_alike(names, list(alike))
    return (f" tone-{tones.pop()}" if len(tones) == 1 else ""), body


def _svg_alike(names: str, alike: Sequence[Shape]) -> str:
    """Neighbours of one role and tone: areas, lines and dots in a path each, labels in a group: pages stay small."""
    areas = "".join(f"{_svg_path(shape.points)}z" for shape in alike if isinstance(shape, Area))
    lines = "".join(_svg_path(line) for shape in alike if isinstance(shape, Stroke | Lines) for line in _lines(shape))
    body = "".join(f'<path class="{names}" d="{path}"/>' for path in (areas, lines) if path)
    dots: dict[float, list[Point]] = {}
    for dot in alike:
        if isinstance(dot, Dot):
            dots.setdefault(dot.radius, []).append(dot.centre)
    labels = [shape for shape in alike if isinstance(shape, Label)]
    for anchor, beside in groupby(labels, key=_svg_anchor):
        texts = "".join(f'<text x="{_px(x)}" y="{_px(y)}">{text}</text>' for (x, y), text in map(_said, beside))
        body += f'<g class="{names}"{anchor}>{texts}</g>'
    for radius, centres in dots.items():
        if len(centres) == 1:
            ((x, y),) = centres
            body += f'<circle class="{names}" cx="{_px(x)}" cy="{_px(y)}" r="{radius:g}"/>'
            continue
        role, _, tone = names.partition(" ")
        edge = STYLES[role].width / 2
        points = "".join(f"M{_px(x)} {_px(y)}h0" for x, y in centres)
        body += f'<path class="dots {tone}" stroke-width="{2 * (radius + edge):g}" d="{points}"/>'.replace(' "', '"')
        if STYLES[role].fill != TONE:
            body += f'<path class="holes" stroke-width="{2 * (radius - edge):g}" d="{points}"/>'
    return body


def _lines(shape: Stroke | Lines) -> tuple[tuple[Point, ...], ...]:
    return shape.lines if isinstance(shape, Lines) else (shape.points,)


def _said(label: Label) -> tuple[Point, str]:
    return label.at, escape(label.text)


def _svg_anchor(label: Label) -> str:
    return "" if label.anchor == "start" else f' text-anchor="{label.anchor}"'


def _svg_path(points: Sequence[Point]) -> str:
    """A line in steps from point to point, rounded to a tenth of a pixel where they lie, so that no error adds up."""
    tenths = [(round(10 * x), round(10 * y)) for x, y in points]
    steps = ((x - before_x, y - before_y) for (before_x, before_y), (x, y) in pairwise(tenths))
    places = (f"{_step(x)} {_step(y)}".replace(" -", "-") for x, y in (tenths[0], *steps))
    return f"M{'l'.join(places)}"


def _step(tenths: int) -> str:
    """Tenths of a pixel in pixels, as short as SVG takes it: ".3", "-1.2", "14"."""
    whole, part = divmod(abs(tenths), 10)
    text = f"{whole or ''}.{part}" if part else f"{whole}"
    return f"-{text}" if tenths < 0 else text


def _px(value: float) -> str:
    """A coordinate to a tenth of a pixel, as short as it can be written."""
    return _step(round(10 * value))


def _draw(axes: Axes, shape: Shape, order: int) -> None:
    style = STYLES[shape.role]
    points_per_pixel = 72 / _PNG_PIXELS_PER_INCH

    def colour(name: str) -> str:
        return LIGHT[(shape.tone or "none") if name == TONE else name] if name else "none"

    if isinstance(shape, Area):
        axes.add_patch(
            Polygon(
                shape.points,
                closed=True,
                facecolor=colour(style.fill),
                edgecolor=colour(style.stroke),
                alpha=style.opacity,
                linewidth=style.width * points_per_pixel if style.stroke else 0,
                zorder=order,
            )
        )
    elif isinstance(shape, Stroke | Lines):
        for points in _lines(shape):
            xs, ys = zip(*points, strict=True)
            line = Line2D(xs, ys, color=colour(style.stroke), alpha=style.opacity, zorder=order)
            line.set_linewidth(style.width * points_per_pixel)
            if style.dash:
                line.set_linestyle((0, [length * points_per_pixel for length in style.dash]))
            axes.add_line(line)
    elif isinstance(shape, Dot):
        axes.add_patch(
            Circle(
                shape.centre,
                shape.radius,
                facecolor=colour(style.fill),
                edgecolor=colour(style.stroke),
                linewidth=style.width * points_per_pixel,
                zorder=order,
            )
        )
    else:
        text = axes.text(
            *shape.at,
            shape.text,
            color=colour(style.fill),
            fontsize=style.size_px * points_per_pixel,
            fontweight="bold" if style.bold else "normal",
            ha={"start": "left", "middle": "center", "end": "right"}[shape.anchor],
            va="baseline",
            zorder=order,
            parse_math=False,
        )
        if style.halo:
            text.set_path_effects([patheffects.withStroke(linewidth=3 * points_per_pixel, foreground=LIGHT["surface"])])
