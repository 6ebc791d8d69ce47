"""Clients of a scheduler: an RPC client, and stand-ins for conductors and computes.

::

    boot ──▶ super-conductor ──▶ scheduler
                  │   chosen host (claimed) + alternates
                  ▼
            cell conductor ◀──────────────┐
                  │                       │ build failed: here are the alternates
                  ▼                       │
            fake compute ─────────────────┘

Resizes go the same way; live migrations, evacuations and unshelving have no alternates.

``SchedulerClient`` is a full client of the scheduler's RPC interface. The conductors and the compute do only
the part of nova's work that concerns the scheduler and Placement: no disks, no networks, no instances in
databases (spec: host-state-and-cells 7).
"""
