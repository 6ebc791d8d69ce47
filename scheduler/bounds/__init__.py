"""What bounds every wait, and what a process keeps in the background.

- deadline: the deadline of a request, which bounds every wait for a dependency
- waits: what a request waits for, for ``berth-explain waiting``
- locks: locks by name, waited for with a bound
- circuit_breaker: skipping a dependency that does not answer, and probing it
- bounded_http: HTTP responses that are bounded in time and size as a whole
- keystone_access: tokens of Keystone, without a queue of waiting requests while it is unavailable
- outages: the waits of requests while a dependency is unavailable
- background: loops in background threads: start, wake, stop, errors
"""
