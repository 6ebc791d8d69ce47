"""Placement: who could have it, and who gets it.

``client`` speaks HTTP. ``candidates`` asks which hosts could take a request; ``sharing`` lets equal
questions in flight share an answer. ``claims`` takes what was chosen, ``release`` gives it back,
``batch`` takes it for many instances at once. Spec: placement-and-workflow 2-4 and 6.
"""
