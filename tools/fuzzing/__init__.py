"""Hostile input for the scheduler in one process, and what may come of it; tools/scenarios/fuzz.py feeds it.

::

    corpus, example database ── inputs ──▶ targets ──▶ outcome ──▶ oracle
                                             │
                                           world: manager, RPC server, SQLite, a scripted Placement
"""
