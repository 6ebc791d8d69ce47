"""Comparing Placement with nova's databases.

- values: what is compared, in plain values, and the kinds of findings
- compare: the comparison itself; no I/O
- readers: compute nodes, instances and migrations, read from the databases, and Placement's providers
- run: an audit, page by page; each finding is read a second time
- command: ``berth-status audit``
"""
