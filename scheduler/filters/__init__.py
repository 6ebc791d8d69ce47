"""The rules that say which hosts may have an instance: one file a family, under nova's module names.

Besides the rules themselves:

- base: what a filter is
- chain: running the enabled ones
- builtin, loader: which there are, and how the options name them
- foreign, nova_style: operators' own classes, and nova's base classes for them
- aggregate_rule, counts, overcommit: what several families share
- columns, grouping, candidate_groups: one verdict for many hosts that are alike
- extra_specs_ops, utils: helpers, nova's own among them; json_query, json_columns: the language of JsonFilter
"""
