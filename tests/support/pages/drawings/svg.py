"""Draw boxes, arrows and text as SVG: system fonts, colours for light and dark mode, no scripts."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from math import hypot

FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
LINE = 17  # between two lines of text
HEAD = 7  # length of an arrow's head

# (fill, stroke and emphasised text) of a kind, in light and in dark mode. `frame` holds other boxes.
LIGHT = {
    "plain": ("#f6f8fa", "#818b98"),
    "frame": ("#ffffff", "#818b98"),
    "blue": ("#ddf4ff", "#0969da"),
    "green": ("#dafbe1", "#1a7f37"),
    "orange": ("#fff1e5", "#bc4c00"),
    "red": ("#ffebe9", "#cf222e"),
}
DARK = {
    "plain": ("#1c222b", "#7d8590"),
    "frame": ("#0d1117", "#7d8590"),
    "blue": ("#14284a", "#4493f8"),
    "green": ("#12301f", "#3fb950"),
    "orange": ("#3a2110", "#e0823d"),
    "red": ("#3d1a1d", "#f85149"),
}


def _colours(paper: str, ink: str, muted: str, kinds: dict[str, tuple[str, str]]) -> str:
    rules = [f".paper {{ fill: {paper} }}", f"text {{ fill: {ink} }}", f".muted {{ fill: {muted} }}"]
    for kind, (fill, stroke) in kinds.items():
        rules += [
            f".{kind} {{ fill: {fill}; stroke: {stroke} }}",
            f".{kind}-line {{ stroke: {stroke} }}",
            f".{kind}-text, .{kind}-head {{ fill: {stroke} }}",
        ]
    return "\n".join(rules)


STYLE = f"""text {{ font: 13px {FONTS} }}
.small {{ font-size: 11.5px }}
.strong {{ font-weight: 600 }}
line, path {{ fill: none; stroke-width: 1.5 }}
rect {{ stroke-width: 1.2 }}
.dashed {{ stroke-dasharray: 5 4 }}
{_colours("#ffffff", "#1f2328", "#59636e", LIGHT)}
@media (prefers-color-scheme: dark) {{
{_colours("#0d1117", "#e6edf3", "#9da7b1", DARK)}
}}"""


@dataclass
class Drawing:
    """A drawing in the making. Coordinates are those of SVG: x to the right, y down."""

    title: str
    description: str
    width: int
    height: int
    _parts: list[str] = field(default_factory=list, init=False)

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        *lines: str,
        kind: str = "plain",
        style: str = "",
        dashed: bool = False,
    ) -> None:
        """A box with lines of text in its middle. `style`: classes of the first line, such as "strong"."""
        extra = " dashed" if dashed else ""
        self._parts.append(f'<rect class="{kind}{extra}" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="4"/>')
        top = y + h / 2 - LINE * (len(lines) - 1) / 2
        for number, line in enumerate(lines):
            self.text(
                x + w / 2, top + number * LINE + 4.5, line, anchor="middle", style=style if number == 0 else "small"
            )

    def text(self, x: float, y: float, line: str, *, anchor: str = "start", style: str = "") -> None:
        self._parts.append(f'<text class="{style}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(line)}</text>')

    def label(self, x: float, y: float, name: str, detail: str) -> None:
        """A name with a detail below."""
        self.text(x, y, name, style="strong")
        self.text(x, y + LINE, detail, style="small muted")

    def span(self, x1: float, x2: float, y: float, name: str) -> None:
        """A name above a horizontal line, in its middle."""
        self.text((x1 + x2) / 2, y - 9, name, anchor="middle", style="strong")
        self.line(x1, y, x2, y)

    def line(self, x1: float, y1: float, x2: float, y2: float, *, kind: str = "plain", dashed: bool = False) -> None:
        extra = " dashed" if dashed else ""
        self._parts.append(f'<line class="{kind}-line{extra}" x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>')

    def arrow(self, *points: tuple[float, float], kind: str = "plain", dashed: bool = False) -> None:
        """An arrow along the points, with its head at the last."""
        (x1, y1), (x2, y2) = points[-2:]
        length = hypot(x2 - x1, y2 - y1)
        dx, dy = HEAD * (x2 - x1) / length, HEAD * (y2 - y1) / length
        stem = [*points[:-1], (x2 - dx, y2 - dy)]
        for (ax, ay), (bx, by) in pairwise(stem):
            self.line(ax, ay, bx, by, kind=kind, dashed=dashed)
        corners = [(x2, y2), (x2 - dx - dy / 2, y2 - dy + dx / 2), (x2 - dx + dy / 2, y2 - dy - dx / 2)]
        around = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        self._parts.append(f'<polygon class="{kind}-head" points="{around}"/>')

    def cross(self, x: float, y: float, size: float = 7) -> None:
        """The end of a process."""
        self.line(x - size, y - size, x + size, y + size, kind="red")
        self.line(x - size, y + size, x + size, y - size, kind="red")

    def svg(self) -> str:
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" role="img" aria-labelledby="title desc">',
                f'<title id="title">{escape(self.title)}</title>',
                f'<desc id="desc">{escape(self.description)}</desc>',
                f"<style>\n{STYLE}\n</style>",
                f'<rect class="paper" width="{self.width}" height="{self.height}"/>',
                *self._parts,
                "</svg>\n",
            )
        )
