"""A scheduler service for OpenStack compute.

- manager: one scheduler: its start and end, and what it is called for; parts: what it works with
- errors: what is raised on purpose, as one tree
- logs: log lines that do not repeat
- version: the version of this package

``doc/source/how-it-is-built.rst`` lists the packages; everything but ``operators`` is the service.
"""
