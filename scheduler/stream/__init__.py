"""Decisions shared with other schedulers, through a RabbitMQ stream.

- decision_stream: the stream of one scheduler as a whole, and which schedulers are alive
- loops: the threads that write and read it; broker: how to connect
- records: what is written to the stream, encoded and decoded
- shared_decisions: own decisions as records, and the effect of others' records here
"""
