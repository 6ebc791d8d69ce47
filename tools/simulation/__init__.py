"""A deterministic simulation of Berth's whole loop: callers, broker, schedulers, Placement, their failures.

- runtime: tasks, processes and the virtual clock; every choice of who runs next is drawn from a seed
- threads: ``threading``, ``time`` and the other modules of the standard library, on that runtime
- imports: the product's modules, imported so that they use those
- placement, http: a model of Placement, and the connection to it with its faults
- amqp: kombu's connections without a network
- broker: a model of RabbitMQ, down to the methods of AMQP
- callers: conductors that ask, time out and repeat, and users who delete
- daemon: the daemons of a host, made of the product's code
- plan: what one history consists of, drawn from its seed
- history: one history from start to quiet
- promise: what must be true after each history
- breaks: what the promise must not survive
- shrink: the smallest part of a plan that still fails
- command: the command line
"""
