"""Swap nova-scheduler for Berth and back while instances are built, and tell each step with its output."""
