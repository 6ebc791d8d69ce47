"""``berth-status``: checks of a deployment.

- main: the program
- upgrade_check: can Berth take the place of nova-scheduler here
- remove: what Berth leaves on the broker and on disk
"""
