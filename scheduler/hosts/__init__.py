"""What rules see of the hosts. Nothing here does I/O.

- rows: the plain values of a compute node and its service
- coordinates: row, position, index and code as four types
- encoded_column, columns, table: the host table, an immutable snapshot
- aggregates: the host aggregates
- view: the hosts of one request
- host_state, nova_values: one of them under nova's attribute names
- pending: placements that were decided and not reported yet
- demands: the NUMA cells and PCI devices that they take
- recent_builds: for which projects hosts have failed to build
- failure_domains: hosts that fail together, and the instances there
- reservations: those of others, and its own, as one request sees them
- free_amounts: what compute nodes have left, those placements counted
- request_instances: where instances are, as one request sees it
"""
