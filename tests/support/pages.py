"""What a page says: its elements, its tables and its links."""

from html.parser import HTMLParser

VOID = {"meta", "br", "input"}


class Page(HTMLParser):
    """A page that was parsed; an element that is closed in the wrong place is an error.

    Attributes:
        elements: Each element: its tag, and its attributes.
        tables: The rows of each table, each row as the texts of its cells.
        texts: The texts that are shown.
        inside: The text in each element of a tag, by the tag.
    """

    def __init__(self, html):
        super().__init__()
        self.elements, self.tables, self.texts, self.inside = [], [], [], {}
        self._open = []
        self.feed(html)
        assert self._open == []

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self._open.append(tag)
            self.inside.setdefault(tag, []).append("")
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, text):
        for tag in set(self._open):
            self.inside[tag][-1] += text
        if {"style", "script"} & set(self._open):
            return
        words = " ".join(text.split())
        if words:
            self.texts.append(words)
            if {"td", "th"} & set(self._open):
                row = self.tables[-1][-1]
                row[-1] = f"{row[-1]} {words}".strip()

    @property
    def links(self):
        """The addresses that the page links to."""
        return [attributes["href"] for tag, attributes in self.elements if tag == "a"]

    @property
    def ids(self):
        """The ids of elements."""
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]

    def of_class(self, name):
        """The attributes of the elements of a class."""
        return [each for _, each in self.elements if name in (each.get("class") or "").split()]

    @property
    def text(self):
        """All that is shown."""
        return " ".join(self.texts)
