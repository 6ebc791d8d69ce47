"""Comparing Placement with nova's databases.

- values: what is compared, in plain values
- findings: the kinds of findings, and what an operator does about each
- compare: the comparison itself; no I/O
- placement_reader: providers and allocations, read from Placement
- nova_reader: compute nodes, instances and migrations, read from the databases
- run: an audit, page by page; each finding is read a second time
- command: ``berth-status audit``
"""
