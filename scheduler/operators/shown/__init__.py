"""What commands show: one presentation, from which every format is made.

- shown: the presentation: head, pictures and tables, and the document behind them
- command: the base of commands that show something, as text, JSON, YAML, CSV, values or a page
- page: the page, of templates/page.html alone
- files: writing pages and metrics, and the time, cloud, version and options that all formats name
"""
