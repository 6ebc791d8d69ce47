"""NUMA: whether a guest's cells fit on a host's cells, where, and what that takes from the host.

- topology, loading: what a host has (text -> HostTopology), and how far it may be overcommitted
- guest: what is asked for (wire objects -> GuestTopology)
- cell: one guest cell on one host cell, pinning included
- search: all guest cells on all host cells
- fit: the whole, remembered by Fitter
- candidates: what the filter calls
- usage: charging a fitted guest to its host, and giving it back
- reasons: why not, in words
"""
