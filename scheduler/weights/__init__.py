"""The preferences that say which host is best: one file a family, under nova's module names.

Besides the preferences themselves:

- base: what a weigher is
- scores: from raw weights to one total a host
- builtin, loader: which there are, and how the options name them
- foreign, nova_style: operators' own classes, and nova's base classes for them
"""
