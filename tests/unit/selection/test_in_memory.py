"""A decision is a function of values in memory: once the needs are loaded, no rule asks for instances."""

import pytest

from scheduler import objects
from scheduler.filters import builtin as built_in_filters
from scheduler.filters.chain import FilterChain
from scheduler.hosts.request_instances import Needs
from scheduler.numa.fit import Fitter
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.consume import consume
from scheduler.selection.ranking import Ranking
from scheduler.weights import builtin as built_in_weighers
from scheduler.weights.scores import PreparedWeighers
from tests.builders import CELL, Instances, make_host, make_view
from tests.unit.selection.requests import make_conf, make_spec

CONF = {"image_props_weight_multiplier": 1.0, "metrics__weight_setting": ["a=1"]}
UUIDS = ["i1", "i2"]


class Closing(Instances):
    """A source that raises once it is closed."""

    closed = False

    def _check(self):
        assert not self.closed, "instances were asked for after everything was loaded"

    def locate(self, uuids):
        self._check()
        return super().locate(uuids)

    def on_host(self, cell_uuid, host):
        self._check()
        return super().on_host(cell_uuid, host)

    def image_properties(self, places):
        self._check()
        return super().image_properties(places)


def demanding_spec(policy):
    """A request for which every rule has something to judge."""
    return make_spec(
        flavor=objects.Flavor(
            name="m1", vcpus=1, memory_mb=512, root_gb=1, ephemeral_gb=0, swap=0, extra_specs={"rack": "r1"}
        ),
        image=objects.ImageMeta(
            properties=objects.ImageMetaProps(hw_architecture="x86_64", os_distro="linux")
        ),
        scheduler_hints={
            "different_host": ["e9"],
            "same_host": ["e1", "e2"],
            "build_near_host_ip": ["10.0.0.1"],
            "query": ['[">=", "$free_ram_mb", 512]'],
        },
        instance_group=objects.InstanceGroup(
            uuid="g", policy=policy, policies=[policy], members=["e1", *UUIDS], hosts=["h2", "h3"]
        ),
        requested_destination=objects.Destination(
            cell=objects.CellMapping(uuid=CELL), allow_cross_cell_move=True
        ),
        project_id="p",
    )


def hosts():
    made = [make_host(f"h{number}") for number in range(1, 6)]
    for host in made:
        host.ram(8192).disk(102400).vcpus(16).ip("10.0.0.2").supports(("x86_64", "kvm", "hvm"))
        host.metrics({"a": 1}).aggregate("racks", rack="r1")
    made[0].holding("e1", os_distro="linux")
    for host in made[1:4]:
        host.holding("e2")
    made[4].holding("e9")
    return made


@pytest.mark.parametrize("policy", ["anti-affinity", "affinity", "soft-affinity", "soft-anti-affinity"])
def test_all_rules_run_on_a_table_in_memory_once_their_needs_are_loaded(policy):
    conf, cloud = make_conf(**CONF), hosts()
    source = Closing(cloud)
    view = make_view(cloud, instances=source)
    request = SchedulingRequest.of(demanding_spec(policy), UUIDS)
    chain = FilterChain([cls(conf) for cls in built_in_filters.SHIPPED]).prepare(request)
    weighers = PreparedWeighers([cls(conf) for cls in built_in_weighers.ALL], request)
    view.load(chain.needs | weighers.needs)
    source.closed = True
    ranking = Ranking(chain, weighers, view, request, conf.filter_scheduler)
    for number, uuid in enumerate(UUIDS, 1):
        assert len(ranking.totals())
        request.progress.instance_uuid = uuid
        chosen = next(ranking.best_first())
        consume(ranking.hosts, chosen, request, Fitter())
        ranking.number = number
        ranking.refresh(chosen)
    reasons = [reason for _, _, reason in chain.run(view).reasons()]
    assert any(reason.startswith("DifferentHostFilter: holds instance e9") for reason in reasons)


def test_a_plain_boot_needs_nothing_but_the_table():
    conf = make_conf()
    request = SchedulingRequest.of(make_spec(), UUIDS)
    chain = FilterChain([cls(conf) for cls in built_in_filters.SHIPPED]).prepare(request)
    weighers = PreparedWeighers([cls(conf) for cls in built_in_weighers.ALL], request)
    assert chain.needs | weighers.needs == Needs()


def test_what_a_forced_host_is_not_filtered_for_is_not_loaded():
    cloud, conf = hosts(), make_conf()
    source = Instances(cloud)
    spec = make_spec(scheduler_hints={"different_host": ["e9"]}, force_hosts=["h5"])
    request = SchedulingRequest.of(spec, UUIDS)
    chain = FilterChain([cls(conf) for cls in built_in_filters.SHIPPED]).prepare(request)
    view = make_view(cloud, instances=source)
    assert len(Ranking(chain, PreparedWeighers([], request), view, request, conf.filter_scheduler)) == 1
    assert source.asked == 0
