"""The programs of the service.

- scheduler: berth-scheduler, the daemon; worker_parts: what its workers are made of
- router: berth-router; router_parts: what its workers are made of
- traffic: what metrics and health checks show of the RPC server of either
- check_config: the argument --check-config
"""
