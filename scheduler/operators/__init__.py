"""The commands of operators. Nothing of the service imports it.

- explain: ``berth-explain``: decisions, hosts, the decision log
- plan: ``berth-plan``: the decision core, run many times on a snapshot; snapshot: that snapshot
- shadow: ``berth-shadow``: decisions on copies of nova-scheduler's requests
- report: counts over decisions and the states of hosts, for ``berth-explain report``
- upgrade_check, audit: ``berth-status``: the upgrade check, comparing Placement with nova's databases
- shown: one presentation for all of it, as text, data and pages
- programs: the table of programs and their commands; app: what all commands have in common
"""
