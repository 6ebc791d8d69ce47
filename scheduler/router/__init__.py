"""Which partition a request belongs to, and which one is tried after it.

- routing: the rules, as functions of plain values
"""
