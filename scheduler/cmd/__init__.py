"""The commands, one module each.

What several of them have in common is in ``operator_app`` and ``findings_table``. ``worker_parts`` composes
the workers of the daemon.
"""
