"""NUMA: whether a guest's cells fit on a host's cells, where, and what that takes from the host.

- topology, loading: what a host has (text -> HostTopology)
- guest, limits: what is asked for (wire objects -> GuestTopology, Limits)
- cell, pinning: one guest cell on one host cell
- order, arrangements, search: all guest cells on all host cells
- affinity: networks tied to cells
- fit: the whole, remembered by Fitter
- candidates, charge: what filters and consumption call
- usage: charging a fitted guest to its host, and giving it back
- reasons, errors: why not, in words; CPUs that are not free
"""
