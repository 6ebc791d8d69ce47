"""Asking weighers in tests: totals by host name, for one weigher or several."""

from scheduler import objects
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.scores import PreparedWeighers
from tests.builders import make_view
from tests.support.options import make_conf


def make_spec(**fields):
    """A RequestSpec that nothing in it concerns any weigher, but for what is given."""
    flavor = objects.Flavor(name="m1", vcpus=1, memory_mb=512, root_gb=1, ephemeral_gb=0, swap=0)
    return objects.RequestSpec(**{"flavor": flavor, "instance_uuid": "X", **fields})


def make_request(**fields):
    """A request for one instance, from what ``make_spec`` takes."""
    return request_of(make_spec(**fields))


def request_of(spec):
    """The request that a RequestSpec for one instance makes."""
    return SchedulingRequest.of(spec, [spec.instance_uuid])


def scores(weighers, view, request=None):
    """The scores by weigher objects of the hosts of a view, with what they need loaded."""
    prepared = PreparedWeighers(weighers, request or make_request())
    view.load(prepared.needs)
    return prepared.scores(view)


def totals(weighers, hosts, request=None, **overrides):
    """Host name -> total; ``overrides`` are options."""
    conf = make_conf(**overrides)
    view = make_view(hosts)
    found = scores([weigher(conf) for weigher in weighers], view, request).totals().tolist()
    return {row.host: total for row, total in zip(view.rows, found, strict=True)}
