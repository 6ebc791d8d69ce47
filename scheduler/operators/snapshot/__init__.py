"""A snapshot of a cloud, for plans and reports.

- snapshot: a cloud as nova's databases and Placement have it
- all_instances: every instance of every cell; request_specs: flavors, and the requests of those instances
- stored_requests: those requests as the decision core takes them
- planned_cloud: the snapshot as a plan changes it; planned_world: what its decisions read
- requests, hints: requests that arguments describe
- guest_topology, pci_aliases: NUMA topology and PCI requests of a flavor, which arriving requests have
"""
