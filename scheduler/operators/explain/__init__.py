"""``berth-explain``: answers of schedulers and of the decision log, as text, tables and pages.

- decision_commands: questions about decisions that were made, and the requests in progress
- ticket: a decision in five lines, or in words for the user
- host: about a host, as of now and in the latest decisions; host_now: the host as of now
- decision: what is shown of a decision
- log_reader: reads decision logs
"""
