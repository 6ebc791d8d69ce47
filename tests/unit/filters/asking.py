"""Asking a filter in tests: requests, options, and verdicts by host."""

from types import SimpleNamespace

from scheduler import objects
from scheduler.hosts.request_instances import Needs
from scheduler.request.scheduling_request import SchedulingRequest
from tests.builders import make_host, make_view
from tests.support.options import make_conf

HOST = "h"


def make_flavor(extra_specs=None, **fields):
    sizes = {"vcpus": 1, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 0, "swap": 0}
    specs = {} if extra_specs is None else {"extra_specs": extra_specs}
    return objects.Flavor(**{"name": "m1", "flavorid": "1", **specs, **sizes, **fields})


def make_image(properties=None, **fields):
    """An image from properties as an image service has them."""
    return objects.ImageMeta(properties=objects.ImageMetaProps.from_dict(properties or {}), **fields)


def make_spec(extra_specs=None, image=None, hints=None, group=None, sizes=None, **fields):
    """A RequestSpec; ``image`` is a dict of properties, ``hints`` and ``group`` dicts too."""
    given = {
        "flavor": make_flavor(extra_specs, **(sizes or {})),
        "image": make_image(image) if isinstance(image, dict) else image,
        "scheduler_hints": hints,
        "instance_group": objects.InstanceGroup(**group) if group else None,
        "instance_uuid": "X",
        "project_id": "p",
    }
    return objects.RequestSpec(**{**given, **fields})


def make_request(*args, **kwargs):
    """A request for one instance, from what ``make_spec`` takes."""
    return request_of(make_spec(*args, **kwargs))


def request_of(spec):
    """The request that a RequestSpec for one instance makes."""
    return SchedulingRequest.of(spec, [spec.instance_uuid])


def candidate(**mappings):
    """An allocation candidate, as far as filters look at one."""
    return SimpleNamespace(mappings=mappings)


def prepared(rule, view, request):
    """The judge of a filter object, with what it needs loaded into the view; None if it does not apply."""
    judge = rule.prepare(request)
    if judge is not None:
        view.load(Needs.declared(rule.needs, judge.instance_uuids))
    return judge


def verdicts(rule, view, request):
    """The verdicts of a filter object on the hosts of a view."""
    judge = prepared(rule, view, request)
    return [True] * len(view) if judge is None else judge.passes(view).tolist()


def ask_all(rule, hosts, request):
    """The verdicts of a filter object on a list of host builders; each rejected host gets a reason."""
    view = make_view(hosts)
    judge = prepared(rule, view, request)
    if judge is None:
        return [True] * len(view)
    verdict = judge.passes(view)
    assert verdict.dtype == bool
    assert verdict.shape == (len(view),)
    for index, passed in enumerate(verdict):
        assert passed or judge.reason(view.host(index))
    return verdict.tolist()


def ask(rule_class, host, request, **overrides):
    """The verdict on one host builder."""
    return ask_all(rule_class(make_conf(**overrides)), [host], request)[0]


def why(rule_class, host, request, **overrides):
    """The reason why one host is rejected."""
    view = make_view([host])
    judge = prepared(rule_class(make_conf(**overrides)), view, request)
    assert judge is not None
    assert not judge.passes(view).any()
    return judge.reason(view.host(0))


def host_in(*aggregates):
    """A host in aggregates with these metadata."""
    host = make_host(HOST)
    for number, metadata in enumerate(aggregates):
        host.aggregate(f"a{number}", metadata)
    return host
