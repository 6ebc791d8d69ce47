"""NUMA: whether the cells of a guest fit on the cells of a host, on which, and what they use there.

- topology, loading: the cells of a host (text -> HostTopology), and the limits of overcommitment
- guest: the cells of a guest (wire objects -> GuestTopology)
- cell: one guest cell on one host cell, with CPU pinning
- search: all guest cells on all host cells, within a bounded number of steps
- fit: a search and its result; Fitter caches results; the candidates that NUMATopologyFilter keeps
- usage: charging a fitted guest to its host
- reasons: why a guest does not fit, in words
"""
