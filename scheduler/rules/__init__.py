"""Loading filters and weighers, built-in and out-of-tree.

- drivers: which rules ``[scheduler] driver`` stands for
- load_filters, load_weighers: from the options to rule objects, and adapters for operators' own classes
- dotted_paths: classes by dotted path
- installed_nova: a nova that is installed next to Berth
- nova_modules: nova's import names for them
"""
