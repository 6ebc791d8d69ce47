"""The programs of the service.

- scheduler: berth-scheduler, the daemon; router: berth-router; worker_parts: what their workers are made of
- check_config: their argument --check-config
"""
