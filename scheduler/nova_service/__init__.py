"""The duties of a nova service.

- service_record: its row among nova's services, and the heartbeats that keep it alive
- host_discovery: mapping new computes to their cells
- buried_builds: the builds that conductors have given up
"""
