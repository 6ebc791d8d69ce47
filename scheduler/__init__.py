"""Berth's scheduler daemon. ``workflow/request_run.py`` shows the steps of a request in order."""
