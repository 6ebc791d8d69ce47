"""Which partition a request belongs to, and which one is tried after it.

- routing: the rules, as functions of plain values
- rooms: how much room each partition has, as it tells and as this process has used since
- path: the partitions in which a call was tried, as noted on the call
- router: sending calls on
- request_routing: one request and its way
- make: the router that the options describe
"""
