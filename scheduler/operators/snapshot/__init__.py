"""A snapshot of a cloud, for plans and reports.

- snapshot: a cloud as nova's databases and Placement have it
- request_specs: every instance of every cell, their requests, flavors and server groups
- planned_cloud: the snapshot as a plan changes it
- requests: requests that arguments describe
- as_nova_api: NUMA topology and PCI requests of a flavor, which arriving requests have
"""
