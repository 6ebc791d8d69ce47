"""What is known of the hosts: the table, where its rows come from, and one request's view of it."""
