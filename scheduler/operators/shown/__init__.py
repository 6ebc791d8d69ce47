"""What commands show: one presentation, from which every format is made.

- shown: the presentation: head, pictures and tables, and the document behind them
- origin: the time, the cloud, the version and the options, which all formats name
- command: the base of commands that show something, as text, JSON, YAML, CSV, values or a page
- tables: tables that fit a terminal
- page: the page, of templates/page.html alone; files: writing it
"""
