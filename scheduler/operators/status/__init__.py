"""``berth-status``: checks of a deployment.

- main: the program
- upgrade_check: can Berth take the place of nova-scheduler here
"""
