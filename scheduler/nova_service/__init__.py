"""The duties of a nova service.

- service_record: its row among nova's services, and the heartbeats that keep it alive
- first_scheduler: mapping new computes to their cells, and finding the builds that conductors have given up
"""
