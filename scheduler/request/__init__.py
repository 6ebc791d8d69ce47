"""From a RequestSpec to the query for Placement.

spec: placement-and-workflow 1, filters-and-weighers 4

::

    prefilters.run(spec, ...)      what the operator's policies add to the request
    targets.named_target(spec)       which compute nodes to look up, if the request names any
    targets.apply_lookup(spec, ...)  what the nodes found mean for the query
    query.build(spec, ...)         one query, or two for pinned CPUs

``resource_request`` makes the resources and traits of the query of ``extra_specs``, ``cpu_policy`` and
``features``; ``groups`` are its parts. ``flavor_and_image`` reads flavor and image side by side, ``reading``
what may be unset; ``network`` queries Neutron for the pre-filters.

``scheduling_request`` is the request as everything after the query knows it, ``progress`` the part of it that
changes, ``past`` whether it may have been run before. ``instance_state`` is what nova says of an instance
whose caller may have left.
"""
