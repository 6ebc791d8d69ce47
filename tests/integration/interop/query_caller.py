"""Run by nova's own Python: what nova asks Placement for the cases of ``query_cases``.

Reads cases from stdin as a JSON list; prints on the last line, as JSON, for each of them the request as nova
sends it and the queries that nova makes of it, or the name of what it raises.
"""

import json
import logging
import sys
import tempfile
import types
from unittest import mock

import query_cases

SETS = "required_traits forbidden_traits root_required root_forbidden forbidden_aggregates".split()


def with_sets(fields):
    """The fields of an object; JSON has no sets."""
    return {name: set(value) if name in SETS else value for name, value in fields.items()}


class Neutron:
    """Nova's Neutron client, with the cloud of the cases behind it."""

    @staticmethod
    def get_segment_ids_for_network(context, network_id):
        return query_cases.NETWORKS[network_id]

    @staticmethod
    def get_segment_id_for_subnet(context, subnet_id):
        return query_cases.SUBNETS[subnet_id]

    @staticmethod
    def show_port(context, port_id):
        return {"port": {"id": port_id, **query_cases.PORTS[port_id]}}

    @classmethod
    def is_remote_managed_port(cls, context, port_id):
        return cls.show_port(context, port_id)["port"]["binding:vnic_type"] == "remote-managed"


class Placement:
    """Nova's Placement client, as far as pre-filters need it."""

    @staticmethod
    def _get_provider_aggregates(context, uuid):
        return types.SimpleNamespace(aggregates=set(query_cases.SEGMENTS[uuid]), generation=1)


class Nova:
    """Nova's scheduler without a service, over databases of its own in ``folder``."""

    def __init__(self, folder):
        from nova import config, context, objects
        import nova.conf

        config.parse_args(["nova-scheduler"], default_config_files=[])
        logging.disable(logging.CRITICAL)
        objects.register_all()
        self.conf = nova.conf.CONF
        self.objects = objects
        self.context = context.get_admin_context()
        self.conf.set_override("connection", f"sqlite:///{folder}/api", "api_database")
        self.conf.set_override("connection", f"sqlite:///{folder}/cell0", "database")
        self._make_databases(folder)
        self._fill()
        from nova.network import neutron
        from nova.scheduler import host_manager
        from nova.scheduler.client import report

        self.host_manager = host_manager.HostManager()
        neutron.API = Neutron
        report.report_client_singleton = Placement

    def _make_databases(self, folder):
        from nova.db.api import api as api_database
        from nova.db.api import models as api_models
        from nova.db.main import api as main_database
        from nova.db.main import models as main_models
        import sqlalchemy

        api_database.configure(self.conf)
        main_database.configure(self.conf)
        api_models.BASE.metadata.create_all(api_database.get_engine())
        for cell in ("cell0", *query_cases.CELLS):
            main_models.BASE.metadata.create_all(sqlalchemy.create_engine(f"sqlite:///{folder}/{cell}"))
        self.cells = {name: self._cell(name, uuid, folder) for name, uuid in query_cases.CELLS.items()}

    def _cell(self, name, uuid, folder):
        cell = self.objects.CellMapping(
            self.context,
            uuid=uuid,
            name=name,
            transport_url="none:///",
            database_connection=f"sqlite:///{folder}/{name}",
        )
        cell.create()
        return cell

    def _fill(self):
        for number, (uuid, metadata) in enumerate(query_cases.AGGREGATES.items()):
            aggregate = self.objects.Aggregate(self.context, name=f"a{number}", uuid=uuid)
            aggregate.create()
            aggregate.update_metadata(metadata)
        mapped = {}
        for host, node, uuid, cell in query_cases.NODES:
            if host not in mapped:
                mapped[host] = self.objects.HostMapping(
                    self.context, host=host, cell_mapping=self.cells[cell]
                )
                mapped[host].create()
            self._node(host, node, uuid, self.cells[cell])

    def _node(self, host, node, uuid, cell):
        from nova import context

        numbers = dict.fromkeys(
            ("vcpus", "memory_mb", "local_gb", "vcpus_used", "memory_mb_used", "local_gb_used"), 1
        )
        with context.target_cell(self.context, cell) as targeted:
            self.objects.ComputeNode(
                targeted,
                uuid=uuid,
                host=host,
                hypervisor_hostname=node,
                hypervisor_type="QEMU",
                hypervisor_version=1,
                cpu_info="",
                **numbers,
            ).create()

    def answer(self, case):
        """The request on the wire, and the queries or the error that come of it."""
        try:
            spec = self.spec(case)
        except ValueError as error:
            return {"impossible": str(error)}
        wire = spec.obj_to_primitive()
        for name in query_cases.SWITCHES:
            self.conf.set_override(name, name in case["switches"], "scheduler")
        self.conf.set_override("max_placement_results", case["max_placement_results"], "scheduler")
        return {"wire": wire, **self._outcome(case, spec)}

    def _outcome(self, case, spec):
        try:
            queries = self._queries(case, spec)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            return {"error": type(error).__name__, "message": str(error)}
        target = spec.requested_destination or {}
        return {
            "queries": queries,
            "named": [getattr(target, name) for name in ("host", "node") if name in target],
        }

    def _queries(self, case, spec):
        from nova.scheduler import request_filter, utils

        if case["prefilters"]:
            with mock.patch(
                "nova.objects.service.get_minimum_version_all_cells", return_value=case["version"]
            ):
                request_filter.process_reqspec(self.context, spec)
        wanted = utils.resources_from_request_spec(self.context, spec, self.host_manager)
        queries = [wanted.to_querystring()]
        if wanted.cpu_pinning_requested and not case["disable_fallback"]:
            wanted = utils.resources_from_request_spec(
                self.context, spec, self.host_manager, enable_pinning_translate=False
            )
            queries.append(wanted.to_querystring())
        return queries

    # -- from plain values to objects

    def spec(self, case):
        objects = self.objects
        return objects.RequestSpec(
            self.context,
            flavor=objects.Flavor(name="f", flavorid="1", **case["flavor"]),
            image=case["image"] and self.image(**case["image"]),
            requested_destination=case["destination"] and self.destination(case["destination"]),
            request_level_params=self.level(case["level"]),
            requested_resources=[objects.RequestGroup(**with_sets(group)) for group in case["groups"]],
            **self.networks(case["networks"]),
            pci_requests=self.pci_requests(case["pci_requests"]),
            instance_uuid="10000000-0000-0000-0000-000000000000",
            numa_topology=None,
            **{name: value for name, value in case["spec"].items() if name != "is_bfv" or value is not None},
        )

    def image(self, disk_format, properties):
        made = self.objects.ImageMetaProps(**properties)
        return self.objects.ImageMeta(name="i", disk_format=disk_format, properties=made)

    def destination(self, fields):
        given = {name: value for name, value in fields.items() if value is not None}
        if "cell" in given:
            given["cell"] = self.cells[given["cell"]]
        return self.objects.Destination(**with_sets(given))

    def level(self, fields):
        return self.objects.RequestLevelParams(**with_sets(fields or {}))

    def networks(self, entries):
        if entries is None:
            return {}
        requests = [self.objects.NetworkRequest(**entry) for entry in entries]
        return {"requested_networks": self.objects.NetworkRequestList(objects=requests)}

    def pci_requests(self, entries):
        if entries is None:
            return None
        requests = [self.objects.InstancePCIRequest(**{"requester_id": None, **entry}) for entry in entries]
        return self.objects.InstancePCIRequests(
            instance_uuid="10000000-0000-0000-0000-000000000000", requests=requests
        )


def main():
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        nova = Nova(folder)
        result = [nova.answer(case) for case in json.load(sys.stdin)]
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
