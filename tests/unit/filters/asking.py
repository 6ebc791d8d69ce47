"""Asking a filter in tests: requests, options, and verdicts by host."""

from types import SimpleNamespace

from scheduler import objects
from tests.builders import make_host, make_view
from tests.support.options import make_conf

HOST = "h"


def make_flavor(extra_specs=None, **fields):
    sizes = {"vcpus": 1, "memory_mb": 512, "root_gb": 1, "ephemeral_gb": 0, "swap": 0}
    specs = {} if extra_specs is None else {"extra_specs": extra_specs}
    return objects.Flavor(name="m1", flavorid="1", **specs, **{**sizes, **fields})


def make_image(properties=None, **fields):
    """An image from properties as an image service has them."""
    return objects.ImageMeta(properties=objects.ImageMetaProps.from_dict(properties or {}), **fields)


def make_request(extra_specs=None, image=None, hints=None, group=None, sizes=None, **fields):
    """A request; ``image`` is a dict of properties, ``hints`` and ``group`` dicts too."""
    given = {
        "flavor": make_flavor(extra_specs, **(sizes or {})),
        "image": make_image(image) if isinstance(image, dict) else image,
        "scheduler_hints": hints,
        "instance_group": objects.InstanceGroup(**group) if group else None,
        "instance_uuid": "X",
        "project_id": "p",
    }
    return objects.RequestSpec(**{**given, **fields})


def candidate(**mappings):
    """An allocation candidate, as far as filters look at one."""
    return SimpleNamespace(mappings=mappings)


def verdicts(rule, view, request):
    """The verdicts of a filter object on the hosts of a view."""
    return rule.passes(view, request).tolist() if rule.applies(request) else [True] * len(view)


def ask_all(rule, hosts, request):
    """The verdicts of a filter object on a list of host builders; each host turned down gets a reason."""
    view = make_view(hosts)
    if not rule.applies(request):
        return [True] * len(view)
    verdict = rule.passes(view, request)
    assert verdict.dtype == bool
    assert verdict.shape == (len(view),)
    for index, passed in enumerate(verdict):
        assert passed or rule.reason(view.host(index), request)
    return verdict.tolist()


def ask(rule_class, host, request, **overrides):
    """The verdict on one host builder."""
    return ask_all(rule_class(make_conf(**overrides)), [host], request)[0]


def why(rule_class, host, request, **overrides):
    """The reason why one host is turned down."""
    rule, view = rule_class(make_conf(**overrides)), make_view([host])
    assert rule.applies(request)
    assert not rule.passes(view, request).any()
    return rule.reason(view.host(0), request)


def host_in(*aggregates):
    """A host in aggregates with these metadata."""
    host = make_host(HOST)
    for number, metadata in enumerate(aggregates):
        host.aggregate(f"a{number}", metadata)
    return host
