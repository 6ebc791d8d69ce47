"""Plans of ``berth-plan`` that are carried out: ``--run``. The only part of the plans that changes the cloud.

- run_command: the arguments, and a run from its begin to its end
- runner: which move is next, and what is done when something differs; one_move: a move, from look to look
- step: one move with its state; journal: the states in a file, written before each action
- planner: the plan, made from the cloud as it is now
- nova_api: nova's API by openstacksdk; placement_view: what Placement has of instances and hosts
- report: what was done and what is left, as a document, lines and tables
- undo: hosts that get instances again
"""
