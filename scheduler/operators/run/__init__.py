"""Plans of ``berth-plan`` that are carried out: ``--run``. The only part of the plans that changes the cloud.

- run_command: the arguments, a run from its begin to its end, what was done and what is left; undo
- runner: which move is next, and what is done when something differs; one_move: a move, from look to look
- journal: moves with their states in a file, written before each action
- nova_api: nova's API by openstacksdk, and what Placement has of instances and hosts
"""
