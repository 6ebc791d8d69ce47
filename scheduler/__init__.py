"""Berth's scheduler daemon. ``manager.py`` shows the steps of a request in order."""
