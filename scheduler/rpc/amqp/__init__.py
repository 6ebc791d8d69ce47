"""Late acknowledgement and confirmed replies on AMQP (spec: wire-and-config 1.1).

oslo.messaging acknowledges a request on receipt, logs a reply that was not delivered, and continues. Here:

* A call is acknowledged after its reply. If the process is killed, the broker delivers the message to another
  scheduler. Casts are acknowledged on receipt, as before.
* ``ConfirmedMessage.reply`` returns when the broker has confirmed the reply, or when it is known not to be
  deliverable; ``undelivered`` says which. Its time is bounded in total.
* The same message may arrive twice, after a lost connection. While it is being answered, and for some time
  after that, the repetition is acknowledged and not answered again.
* A listener that stops takes no more messages, and returns to the broker what was not begun yet.
* A call that is requeued, or was delivered before, is published once more with the number of its runs.

- listener: receives messages
- deliveries: the calls that are not answered yet, and their acknowledgements
- backlog: which calls may have waited while nobody could receive them
- message: one received message, and its reply
- library: what is private in oslo.messaging
- publisher: sends one message and waits for the confirmation of the broker
"""
