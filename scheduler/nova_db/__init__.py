"""Reading nova's databases.

- inventory: the entry point of the manager
- schema, engines: nova's tables, and hashes of their rows; connections to its databases
- cells, host_mappings: which cells there are, and which cell a host belongs to
- api_reader: the loop that reads them, and the host aggregates, from the API database
- scatter_gather: querying all cells at once
- connection_watch: ending the use of connections that hang
- change_tracking: finding the rows that changed since the last read
- row_loader, json_columns: from a row of a database to plain values
- host_reader: keeping the rows of each cell up to date
- host_store: the writer that publishes the next host table, and how old a request's table may be
- reported_placements: which placements computes have reported
- partition_hosts: which hosts belong to the partition that this scheduler serves
- instances: where instances are, read from the cells
- instance_states: whether the callers of instances still wait
"""
