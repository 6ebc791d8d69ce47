"""Decisions shared with other schedulers, through a RabbitMQ stream.

- decision_stream: the stream of one scheduler as a whole
- writer, reader: the threads that write and read it; broker: their connections
- records: what is written to the stream, encoded and decoded; sender_counters: which of them are new
- membership: which schedulers are alive, and how much work each does
- slices: which hosts each of them owns; group_owners: which server groups
- room: how much room the hosts of a scheduler have, as it tells others
- shared_decisions: own decisions as records, and the effect of others' records here
"""
