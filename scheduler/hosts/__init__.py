"""What is known of the hosts: the table, where its rows come from, and one request's view of it.

- inventory: the one door to all of it
- cells, templates: which cells there are, where their databases are, and which cell a host is in
- tables, engines, chunks: nova's tables, connections to its databases, long lists in SQL
- gather: asking all cells at once
- fingerprints, follow, cell_rows: finding the rows that changed since the last look
- rows, texts, row_loader, interning: from a row of a database to plain values
- coded, columns, table: the host table
- store, duplicates: the writer that publishes the next table
- view, host_state, nova_values: the hosts of one request; one of them under nova's attribute names
- pending: what was decided here and is not reported yet
- instances, held, groups: where instances are, what rules may know of them, who is in a server group
- aggregates, aggregate_store: the host aggregates
- liveness, min_version, own_service, discovery: nova's services, the scheduler's own among them
"""
