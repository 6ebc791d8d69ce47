"""The programs of the service.

- scheduler: berth-scheduler, the daemon; scheduler_parts: what it is made of
- router: berth-router
- traffic: what metrics and health checks show of the RPC server of either
- check_config: the argument --check-config
"""
