"""Asking Placement which hosts could take a request (spec: placement-and-workflow 2, 3).

- session, client, errors: HTTP, and what a failure means
- candidates, answer: allocation candidates
- coalescing: equal questions in flight share an answer
"""
