"""Loading filters and weighers, built-in and out-of-tree.

- drivers: which rules ``[scheduler] driver`` stands for
- load_filters, load_weighers: from the options to rule objects
- dotted_paths: classes by dotted path
- out_of_tree_filters, out_of_tree_weighers: adapters for operators' own classes
- installed_nova: a nova that is installed next to Berth
- nova_modules: nova's import names for them
"""
