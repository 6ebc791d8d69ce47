"""What is known of the hosts: the table, where its rows come from, and one request's view of it.

- inventory: the one door to all of it
- cells, templates, host_cells: which cells there are, where their databases are, and which cell a host is in
- tables, engines, chunks: nova's tables, connections to its databases, long lists in SQL
- gather: asking all cells at once
- fingerprints, follow, cell_rows: finding the rows that changed since the last look
- rows, texts, row_loader, interning: from a row of a database to plain values
- coded, columns, table: the host table
- store, duplicates, foreign_providers: the writer that publishes the next table; what it finds amiss
- view, host_state, nova_values: the hosts of one request; one of them under nova's attribute names
- pending, reservations: what was decided here and is not reported yet; a request's share of it
- instances, remembered, held: where instances are, asked of the cells; what rules may know of them
- request_instances: the same as one request sees it
- groups: who is in a server group
- aggregates, aggregate_store: the host aggregates
- liveness, min_version, own_service, discovery: nova's services, the scheduler's own among them
"""
