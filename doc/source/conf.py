"""How the documentation is built."""

project = "Berth"
copyright = "the Berth authors"  # noqa: A001 - Sphinx's name
extensions = []
html_theme = "alabaster"
exclude_patterns = []
