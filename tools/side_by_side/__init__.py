"""Berth in each of its modes and nova-scheduler in the same rig, one after the other, in rounds.

The rig is what a scheduler needs in a cloud: RabbitMQ, MariaDB with nova's own schema, Placement behind
gunicorn, and a fleet of hosts that do nothing. The load is ``select_destinations``, as conductors call it.
"""
