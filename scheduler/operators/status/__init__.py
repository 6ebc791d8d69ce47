"""``berth-status``: checks of a deployment.

- upgrade_check: can Berth take the place of nova-scheduler here
"""
