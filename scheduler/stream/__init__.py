"""Decisions shared with other schedulers, through a RabbitMQ stream.

- decision_stream: the stream of one scheduler as a whole
- writer, reader: the threads that write and read it; broker: their connections; frames: the messages in what
  a broker sends; catch_up: how far it was read
- records: what is written to the stream, encoded and decoded; sender_counters: which of them are new;
  others_records: what those of other schedulers do here
- presence: what a scheduler tells of itself; room: how much room its hosts have
- membership: which schedulers are alive, and how much work each does
- owners: what each of them owns; slices: which hosts; group_owners: which server groups
- shared_decisions: own decisions as records, and the effect of others' records here
"""
