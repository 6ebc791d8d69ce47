"""The preferences that say which host is best: one class a preference, one file a family.

- amounts: more or less of one number, such as free RAM; added: what nova does not have
- base: what a weigher is
- scores: from raw weights to one total a host
- builtin: which there are, and nova's names of their modules
"""
