"""Feed mutated input to the scheduler in one process, and check what it answers, logs and keeps.

::

    corpus ── mutation ──▶ targets ──▶ outcome ──▶ oracle ──▶ shrinking ──▶ corpus
                             │
                           world: manager, RPC server, databases in SQLite, a scripted Placement
"""
