"""The rules that say which hosts may have an instance: one class a rule, one file a family.

Besides the rules themselves:

- base: what a filter is
- chain: running the enabled ones
- builtin: which there are, and nova's names of their modules
- columns, candidate_groups: one verdict for many hosts that are alike
- extra_specs_ops, utils: helpers, nova's own among them
"""
