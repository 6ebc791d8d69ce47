"""Run by nova's own Python: what nova-api makes of flavors and images, as a JSON list on the last line.

Reads the cases of ``flavor_cases`` from stdin.
"""

import json
import logging
import sys

CELL = ("id", "cpuset", "pcpuset", "memory", "pagesize", "cpu_policy", "cpu_thread_policy")


def prepare():
    """Nova's objects and options."""
    from nova import config, objects
    import nova.conf

    config.parse_args(["nova-api"], default_config_files=[])
    logging.disable(logging.CRITICAL)
    objects.register_all()
    return objects, nova.conf.CONF


def outcome(objects, conf, case):
    """The topology and the PCI requests of a case, or the name of what nova raises."""
    from nova import exception
    from nova.pci import request as pci_request
    from nova.virt import hardware

    conf.set_override("alias", [json.dumps(alias) for alias in case["aliases"]], "pci")
    conf.set_override("pci_in_placement", case["in_placement"], "filter_scheduler")
    pci_request.get_alias_from_config.cache_clear()  # nova reads the option once a process
    flavor = objects.Flavor(**case["sizes"], extra_specs=case["extra_specs"])
    image = objects.ImageMeta.from_dict({"properties": case["properties"]})
    try:
        topology = hardware.numa_get_constraints(flavor, image)
        policy = hardware.get_pci_numa_policy_constraint(flavor, image)
        requests = pci_request.get_pci_requests_from_flavor(flavor, affinity_policy=policy)
        spec = objects.RequestSpec(pci_requests=requests, requested_resources=[])
        spec.generate_request_groups_from_pci_requests()
    except (exception.NovaException, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {
        "cells": topology and [plain(cell, *CELL) for cell in topology.cells],
        "emulator": topology and topology.emulator_threads_policy,
        "requests": [plain(one, "count", "spec", "alias_name", "numa_policy") for one in requests.requests],
        "groups": [plain(group, "resources", "required_traits") for group in spec.requested_resources],
    }


def plain(thing, *names):
    """Fields of an object as JSON has them."""
    values = {name: getattr(thing, name) for name in names}
    return {name: sorted(value) if isinstance(value, set) else value for name, value in values.items()}


def main():
    nova = prepare()
    sys.stdout.write(json.dumps([outcome(*nova, case) for case in json.load(sys.stdin)]) + "\n")


if __name__ == "__main__":
    main()
