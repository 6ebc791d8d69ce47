"""PCI device pools: loading them, matching requests with them, consuming devices from them.

- pools: what a compute has free (text -> PoolSet)
- requests: what a guest requests (wire object -> PciRequest)
- matching: which pools may serve which request, without their counts and NUMA cells
- offer: the pools of a host and the requests of a guest as plain numbers, equal for equal hosts
- consumption: serving the requests of an offer from its pools, one request after the other
- support: whether a host can serve the requests, with which allocation candidates, and why not
- wire: reading objects with unset fields
"""
