"""Reads what the report wrote, as a browser, GitHub or a screen reader would, for the tests of the report."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

from markdown_it import MarkdownIt

INLINE = {"a", "b", "i", "em", "strong", "small", "span", "code"}
VOID = {"meta", "link", "br", "img", "hr", "input"}


@dataclass
class Element:
    """An element with what is inside it."""

    tag: str
    attributes: dict[str, str]
    parent: "Element | None" = None
    children: "list[Element | str]" = field(default_factory=list)

    def text(self) -> str:
        """Everything that is written inside; what does not flow in a line is set apart by spaces."""
        inside = "".join(child if isinstance(child, str) else child.text() for child in self.children)
        return inside if self.tag in INLINE else f" {inside} "

    def all(self, *tags: str) -> "list[Element]":
        """Every element inside with one of the tags, in their order; all elements without tags."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                if not tags or child.tag in tags:
                    found.append(child)
                found += child.all(*tags)
        return found

    def classes(self) -> list[str]:
        """The classes of the element."""
        return self.attributes.get("class", "").split()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("root", {})
        self.here = self.root
        self.unclosed: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, self.here)
        self.here.children.append(element)
        if tag not in VOID:
            self.here = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.here.children.append(Element(tag, {name: value or "" for name, value in attrs}, self.here))

    def handle_endtag(self, tag: str) -> None:
        assert self.here.tag == tag, f"</{tag}> closes <{self.here.tag}>"
        assert self.here.parent
        self.here = self.here.parent

    def handle_data(self, data: str) -> None:
        self.here.children.append(data)


def read_html(text: str) -> Element:
    """The page as a tree. Fails when an element is closed that is not open, or the other way round."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.here is reader.root, f"<{reader.here.tag}> is not closed"
    return reader.root


def read_markdown(text: str) -> Element:
    """The Markdown as GitHub shows it: tables and strikethrough, embedded HTML as it is."""
    return read_html(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text))


def words(text: str) -> str:
    """The text on one line with plain spaces, for comparisons that do not care about wrapping."""
    return " ".join(text.replace("\N{WORD JOINER}", "").split())
