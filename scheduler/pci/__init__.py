"""PCI device pools: loading them, matching requests against them, taking devices from them.

- pools: what a compute has free (text -> PoolSet)
- requests: what a guest wants (wire object -> PciRequest)
- matching: which pool may serve which request, numbers and NUMA cells apart
- offer: pools as the requests of one check see them, the same for equal hosts
- taking: the check itself, and taking the devices
- wire: reading objects with unset fields
- verdict: supported(), apply(), usable_candidates(), which filters and consumption call, and why not
"""
