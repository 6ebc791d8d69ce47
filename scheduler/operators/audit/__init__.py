"""Comparing Placement with nova's databases.

- values: what is compared, in plain values, and the kinds of findings
- compare: the comparison itself; no I/O
- readers: compute nodes, instances and migrations, read from the databases, and Placement's providers
- command: ``berth-status audit``: all is read once, and what differs a second time
"""
