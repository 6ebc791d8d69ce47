"""From candidates to Selections: filter, weigh, choose, claim, consume, and list alternates.

- driver: the order of all this for one request; choosing: one of its instances after the other
- mirrored_hosts: the hosts of a request by the mirror of Placement
- narrowing: what the request itself says of hosts, before any filter
- ranking: the hosts that are left, best first, from instance to instance
- host_claiming, headroom: reserving and claiming the best host that can be had, as far as it fits
- consume: what a chosen host has less of
- alternates: the hosts to fall back to, and the answer
- server_groups: requests of one affinity or soft-affinity group, one at a time
"""
