"""From a RequestSpec to the query that Placement is asked.

spec: placement-and-workflow 1, filters-and-weighers 4

::

    prefilters.run(spec, ...)      what the operator's policies add to the request
    targets.wanted(spec)           which compute nodes somebody has to look up, if any
    targets.settle(spec, ...)      what was found, laid over the request
    query.build(spec, ...)         one query, or two for pinned CPUs

``resource_request`` puts together what the query asks for, out of ``extra_specs``, ``cpu_policy`` and
``features``; ``groups`` are its parts. ``flavor_and_image`` reads flavor and image side by side, ``reading``
what may be unset; ``network`` asks Neutron for the pre-filters.

``scheduling_request`` is the request as everything after the query knows it, ``progress`` the part of it that
changes.
"""
