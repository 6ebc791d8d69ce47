"""What the commands of all programs for operators have in common.

- app: an application with commands, its options and exit status
- arguments: types of arguments that several commands have
"""
