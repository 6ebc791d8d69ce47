"""How the documentation is built."""

from importlib import import_module
from pathlib import Path, PurePosixPath
import re
import sys

from docutils import nodes
from sphinx.roles import XRefRole
from sphinx.util.docutils import SphinxDirective

project = "Berth"
copyright = "the Berth authors"  # noqa: A001 - Sphinx's name
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Berth"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
exclude_patterns = []

# Release notes are read from git's history, which a source archive does not have
if (Path(__file__).resolve().parents[2] / ".git").exists():
    extensions.append("reno.sphinxext")
else:
    exclude_patterns.append("release-notes.rst")
    suppress_warnings = ["toc.excluded"]

NUMBERED_HEADING = re.compile(r"^(?=#+ (\d+(?:\.\d+)*)\.? )", re.MULTILINE)


def label_numbered_sections(_app, docname, content):
    """Give each numbered section of the specification a label: ``numa-and-pci-3.12``.

    The label does not change when the words of the heading change. Code blocks in the chapters must not have
    lines that look like a numbered heading.
    """
    path = PurePosixPath(docname)
    if path.parent.name == "reference":
        content[0] = NUMBERED_HEADING.sub(rf"({path.name}-\1)=\n", content[0])


class SpecRole(XRefRole):
    """A citation of one section: ``:spec:`` with the chapter, a space and the number of the section."""

    def process_link(self, env, refnode, has_explicit_title, title, target):
        """Show the citation as it is written; link to the label of the section."""
        refnode["refdomain"] = "std"
        refnode["reftype"] = "ref"
        refnode["refexplicit"] = True
        return title, target.replace(" ", "-")


def imported(module):
    """Return a module of the program, by its name below ``scheduler``."""
    root = str(Path(__file__).resolve().parents[2])
    if root not in sys.path:
        sys.path.insert(0, root)
    return import_module(f"scheduler.{module}")


def bound_text(name):
    """Return the value of a constant of the program, by its name below ``scheduler``."""
    module, _, constant = name.rpartition(".")
    value = getattr(imported(module), constant)
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def bound_role(_role, source, name, _line, _inliner, options=None, content=()):  # noqa: ARG001 - docutils'
    """Show the value of a constant: ``:bound:`` with its module and its name."""
    return [nodes.inline(source, bound_text(name), classes=["bound"])], []


class CodeTable(SphinxDirective):
    """A table that is made of the code; ``widths`` are those of its columns."""

    widths = ""

    def rows(self):
        """Return the cells of each row, the heading first."""
        raise NotImplementedError

    def run(self):
        """Return the table."""
        lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {self.widths}", ""]
        for first, *others in self.rows():
            lines += [f"   * - {first}", *(f"     - {text}" for text in others)]
        return self.parse_text_to_nodes("\n".join(lines))


class Causes(CodeTable):
    """The causes of failed requests: code, meaning, and what ends it."""

    widths = "18 40 42"

    def rows(self):
        """Return a row for each cause."""
        causes = imported("decisions.cause_code").CauseCode
        cells = [(f"``{cause}``", cause.meaning, cause.remedy) for cause in causes]
        return [("code", "cause", "remedy"), *cells]


class Metrics(CodeTable):
    """All metrics: name, type, labels and meaning."""

    widths = "34 10 14 42"

    def rows(self):
        """Return a row for each metric."""
        metrics = imported("health.catalogue").METRICS
        cells = [
            (
                f"``{each.series}``",
                each.kind,
                ", ".join(f"``{name}``" for name in each.labels) or "\\",
                each.help,
            )
            for each in metrics
        ]
        return [("metric", "type", "labels", "what it says"), *cells]


def setup(app):
    """Add what is Berth's own."""
    app.connect("source-read", label_numbered_sections)
    app.add_role("spec", SpecRole(warn_dangling=True))
    # A figure that a page quotes; tests/unit/test_documentation.py looks it up in benchmarks.rst
    app.add_generic_role("measured", nodes.inline)
    # A constant that a page quotes; tests/unit/test_named_code.py looks it up
    app.add_role("bound", bound_role)
    # Commands print the same texts
    app.add_directive("causes", Causes)
    app.add_directive("metrics", Metrics)
