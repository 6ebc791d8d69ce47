"""A whole cloud in partitions at work: routers, schedulers, conductors and computes that fail, all processes.

What the demo shows at a small scale in one process, measured at full size: real servers, thousands of hosts.
"""
