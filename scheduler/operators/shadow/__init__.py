"""A scheduler in the shadow of nova-scheduler: it decides copies of its requests, and compares.

It claims nothing, answers nobody and is in no list of services.

::

    exchange of nova ─┬─▶ queue scheduler ──▶ nova-scheduler ──▶ Placement
                      └─▶ queue of copies ──▶ decisions ──▶ comparison ◀──┘ what the instances hold
                                                                └──▶ file ──▶ report

- copies: the queue of copies
- decisions: deciding a request without claims, with and without what no compute has reported yet, and how
  that compares with what nova-scheduler chose
- shadow: the process, which takes copies, decides, looks what nova-scheduler chose, and writes it down
- report: counts over what was written
- commands: run and report
"""
