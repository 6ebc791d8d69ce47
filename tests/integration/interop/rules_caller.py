"""Run by nova's own Python: nova's filters and weighers judge the cases of ``rules_cases``.

Reads cases from stdin as a JSON list; prints on the last line, as JSON, for each of them the request as nova
sends it and what nova's rules say.
"""

from datetime import timedelta
import json
import logging
import sys

import rules_cases  # beside this script

# the latter raises for the members of a group that it has just placed
NOT_FOR_SEVERAL = {"MetricsWeigher", "ImagePropertiesWeigher"}


def outcome(call):
    """What a call gives, or the name of what it raises."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
        return type(error).__name__


class Nova:
    def __init__(self):
        from nova import config, context, objects
        import nova.conf

        config.parse_args(["nova-scheduler"], default_config_files=[])
        logging.disable(logging.CRITICAL)
        objects.register_all()
        self.conf = nova.conf.CONF
        self.objects = objects
        self.context = context.get_admin_context()
        self._read_cells_from_nowhere()

    def _read_cells_from_nowhere(self):
        """Cells are what the cases say; nobody connects to their databases."""
        mapping = self.objects.CellMapping

        def get(_context, uuid):
            return mapping(
                uuid=uuid,
                name=uuid,
                database_connection="sqlite://",
                transport_url="none:///",
                disabled=False,
            )

        mapping.get_by_uuid = get

    # -- hosts

    def hosts(self, case):
        # the nodes of a service host share what instances it has
        held = {node["host"]: self.instances(node) for node in case["nodes"]}
        return [self.host(node, case["aggregates"], held[node["host"]]) for node in case["nodes"]]

    def host(self, node, aggregates, instances):
        from nova.scheduler import host_manager

        objects = self.objects
        row = {
            **dict.fromkeys(
                (
                    "created_at",
                    "updated_at",
                    "deleted_at",
                    "pci_stats",
                    "numa_topology",
                    "extra_resources",
                    "service_id",
                    "current_workload",
                    "running_vms",
                )
            ),
            "deleted": 0,
            "mapped": 1,
            **node["row"],
        }
        compute = objects.ComputeNode._from_db_object(self.context, objects.ComputeNode(), row)
        mine = [
            objects.Aggregate(**aggregate) for aggregate in aggregates if node["host"] in aggregate["hosts"]
        ]
        state = host_manager.HostState(node["host"], row["hypervisor_hostname"], node["cell"])
        state.update(compute, self.service(node), mine, instances)
        return state

    def service(self, node):
        from oslo_utils import timeutils

        facts, now = node["service"], timeutils.utcnow()

        def ago(seconds):
            return None if seconds is None else now - timedelta(seconds=seconds)

        service = self.objects.Service(
            id=1,
            uuid="5c000000-0000-4000-8000-000000000001",
            host=node["host"],
            binary="nova-compute",
            topic="compute",
            report_count=1,
            disabled=facts["disabled"],
            disabled_reason=facts["disabled_reason"],
            forced_down=facts["forced_down"],
            last_seen_up=ago(facts["seen"]),
            created_at=ago(facts["created"]),
            updated_at=None,
            deleted=False,
            deleted_at=None,
        )
        return {**service, "version": facts["version"]}

    def instances(self, node):
        return {
            uuid: self.objects.Instance(
                self.context,
                uuid=uuid,
                host=node["host"],
                image_ref="",
                system_metadata={f"image_{k}": v for k, v in image.items()},
            )
            for uuid, image in node["instances"].items()
        }

    # -- requests

    def request(self, fields):
        objects = self.objects
        return objects.RequestSpec(
            self.context,
            instance_uuid=fields["instance_uuids"][0],
            project_id=fields["project_id"],
            user_id="u",
            num_instances=len(fields["instance_uuids"]),
            availability_zone=None,
            flavor=self.flavor(fields["flavor"]),
            image=fields["image"] and objects.ImageMeta.from_dict(fields["image"]),
            scheduler_hints=fields["hints"],
            instance_group=self.group(fields["group"]),
            requested_destination=self.destination(fields["destination"]),
            ignore_hosts=fields["ignore_hosts"],
            force_hosts=fields["force_hosts"],
            force_nodes=fields["force_nodes"],
            numa_topology=None,
            pci_requests=None,
            retry=None,
            limits=objects.SchedulerLimits(),
            is_bfv=False,
            security_groups=objects.SecurityGroupList(objects=[]),
            requested_resources=[],
        )

    def flavor(self, sizes):
        return self.objects.Flavor(
            id=1,
            flavorid="1",
            rxtx_factor=1.0,
            vcpu_weight=0,
            disabled=False,
            is_public=True,
            description=None,
            created_at=None,
            updated_at=None,
            deleted_at=None,
            deleted=False,
            **sizes,
        )

    def group(self, facts):
        if facts is None:
            return None
        rules = {name: str(value) for name, value in facts["rules"].items()}
        return self.objects.InstanceGroup(self.context, **{**facts, "rules": rules})

    def destination(self, facts):
        if facts is None:
            return None
        facts = dict(facts)
        if facts.get("cell"):
            facts["cell"] = self.objects.CellMapping(
                uuid=facts["cell"],
                name="c",
                database_connection="sqlite://",
                transport_url="none:///",
                disabled=False,
            )
        return self.objects.Destination(**facts)

    # -- verdicts

    def judge(self, case):
        for group, options in case["options"].items():
            for name, value in options.items():
                self.conf.set_override(name, value, group)
        try:
            spec, hosts = self.request(case["request"]), self.hosts(case)
            return {
                "request": spec.obj_to_primitive(),
                "narrowed": self.narrowed(hosts, spec),
                "filters": self.filters(hosts, spec),
                **self.weights(hosts, spec),
                "several": outcome(lambda: self.several(case, hosts, spec)),
            }
        finally:
            for group, options in case["options"].items():
                for name in options:
                    self.conf.clear_override(name, group)

    def narrowed(self, hosts, spec):
        manager = self.manager([], [])
        return outcome(lambda: sorted(places(hosts, manager.get_filtered_hosts(hosts, spec))))

    def manager(self, filters, weighers):
        """A host manager with these rules, and none of the hosts of its own."""
        from nova.scheduler import host_manager

        manager = host_manager.HostManager.__new__(host_manager.HostManager)
        manager.filter_handler = host_manager.filters.HostFilterHandler()
        manager.weight_handler = host_manager.weights.HostWeightHandler()
        manager.enabled_filters, manager.weighers = filters, weighers
        return manager

    def several(self, case, hosts, spec):
        """The totals of the hosts left for one instance after the other; the best takes each."""
        from nova.scheduler import filters
        from nova.scheduler.manager import SchedulerManager

        rules = {cls.__name__: cls for cls in filters.all_filters()}
        manager = self.manager(
            [rules[name]() for name in case["enabled"]],
            [rule for rule in weighers() if type(rule).__name__ not in NOT_FOR_SEVERAL],
        )
        steps, left = [], hosts
        for number, uuid in enumerate(case["request"]["instance_uuids"]):
            spec.instance_uuid = uuid
            left = manager.get_filtered_hosts(left, spec, number)
            if not left:
                break
            weighed = manager.get_weighed_hosts(left, spec)
            totals = {places(hosts, [one.obj])[0]: one.weight for one in weighed}
            steps.append(sorted(totals.items()))
            left = [one.obj for one in weighed]
            SchedulerManager._consume_selected_host(hosts[best(totals)], spec, uuid)
        return steps

    def filters(self, hosts, spec):
        from nova.scheduler import filters

        def kept(rule, some):
            return outcome(lambda: places(hosts, rule.filter_all(some, spec)))

        rules = [cls() for cls in filters.all_filters() if cls.__name__ in rules_cases.FILTERS]
        assert len(rules) == len(rules_cases.FILTERS)
        return {
            type(rule).__name__: {"all": kept(rule, hosts), "each": [kept(rule, [host]) for host in hosts]}
            for rule in rules
        }

    def weights(self, hosts, spec):
        from nova.scheduler import weights

        rules = weighers()
        seen = {type(rule).__name__: weighed(rule, hosts, spec) for rule in rules}
        whole = [rule for rule in rules if not isinstance(seen[type(rule).__name__], str)]
        ordered = weights.HostWeightHandler().get_weighed_objects(whole, list(hosts), spec)
        return {"weights": seen, "order": [[*places(hosts, [one.obj]), one.weight] for one in ordered]}


def weighers():
    from nova.scheduler import weights

    classes = {cls.__name__: cls for cls in weights.all_weighers()}
    assert sorted(classes) == sorted(rules_cases.WEIGHERS)
    return [classes[name]() for name in rules_cases.WEIGHERS]


def best(totals):
    """Of those with the largest total the first of the case."""
    return min(totals, key=lambda place: (-totals[place], place))


def places(hosts, kept):
    """Where in the case's nodes those kept are."""
    numbers = {id(host): number for number, host in enumerate(hosts)}
    return [numbers[id(host)] for host in kept]


def weighed(rule, hosts, spec):
    """The total of each host by one weigher, or the name of what it raises."""
    from nova.scheduler import weights

    def totals():
        found = weights.HostWeightHandler().get_weighed_objects([rule], list(hosts), spec)
        return [next(one.weight for one in found if one.obj is host) for host in hosts]

    return outcome(totals)


def main():
    nova = Nova()
    sys.stdout.write(json.dumps([nova.judge(case) for case in json.load(sys.stdin)]) + "\n")


if __name__ == "__main__":
    main()
