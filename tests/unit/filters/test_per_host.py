"""Every rule over whole columns says what its plain form for one host says, on whatever hosts and requests."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st
import pytest

from scheduler.filters import builtin
from tests.builders import make_host, make_view
from tests.unit.filters import per_host
from tests.unit.filters.asking import make_conf, make_image, make_spec, request_of, verdicts

CONF = {
    "isolated_hosts": ["h0", "h1"],
    "isolated_images": ["i"],
    "metrics__weight_setting": ["a=1"],
    "max_instances_per_host": 2,
    "max_io_ops_per_host": 2,
}
ADDRESSES = ["10.0.0.1", "10.0.1.1", "fd00::1"]
UUIDS = ["A", "B", "C"]
SMALL = st.integers(0, 3)
WORDS = st.sampled_from(["1", "2", "3", "x", "hvm", "p", "m1", "1,2", " x , hvm", ""])
METADATA = st.dictionaries(
    st.sampled_from(
        [
            "opt",
            "hw_vm_mode",
            "filter_tenant_id",
            "filter_tenant_id2",
            "instance_type",
            "max_io_ops_per_host",
            "availability_zone",
        ]
    ),
    WORDS,
    max_size=3,
)
STATS = st.dictionaries(
    st.sampled_from(["opt", "num_instances", "hypervisor_type", "cpu_info"]),
    st.sampled_from([None, "1", "2", "x", 1, True, {"a": "1"}]),
)
CPU_INFO = st.sampled_from(
    ['{"vendor": "x", "maxphysaddr": {"bits": 42}}', '{"vendor": "1", "cores": 2}', "no JSON", "[]", None]
)
TRIPLES = st.lists(
    st.sampled_from([("x86_64", "kvm", "hvm"), ("x86_64", "xen", "xen"), ("aarch64", "kvm", "hvm")]),
    max_size=2,
)
REQUIREMENTS = st.sampled_from(["1", "x", "s== x", "<in> 1", "<or> 1 <or> x", ">= 2", "== 1", "!= 1", ""])
KEYS = [
    "opt",
    "num_instances",
    "host_ip",
    "free_ram_mb",
    "cpu_info:vendor",
    "cpu_info:maxphysaddr:bits",
    "opt:a",
    "hypervisor_type",
    "host",
    "update",
]
SPECS = st.dictionaries(
    st.one_of(
        st.sampled_from(KEYS),
        st.sampled_from(KEYS).map("capabilities:{}".format),
        st.sampled_from(KEYS).map("aggregate_instance_extra_specs:{}".format),
        st.just("hw:maxphysaddr_bits"),
    ),
    REQUIREMENTS,
    max_size=3,
)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "hw_architecture": st.sampled_from(["x86_64", "aarch64"]),
        "img_hv_type": st.sampled_from(["kvm", "xen"]),
        "hw_vm_mode": st.sampled_from(["hvm", "xen"]),
        "img_hv_requested_version": st.sampled_from([">=6.0", ">=6.0,<6.1"]),
        "hw_maxphysaddr_bits": st.sampled_from([0, 40, 48]),
    },
)
VARIABLES = [
    "$free_ram_mb",
    "$vcpus_total",
    "$service.disabled",
    "$hypervisor_type",
    "$stats.opt",
    "$host",
    "$nosuch",
    "$host_ip",
    "$stats.opt.a",
    "",
]
ARGUMENTS = st.one_of(
    st.sampled_from(VARIABLES), st.sampled_from([0, 1, 2, 1.5, True, False, "1", "h1", "QEMU", None, {}])
)
QUERIES = st.recursive(
    ARGUMENTS,
    lambda inner: st.builds(
        lambda name, args: [name, *args],
        st.sampled_from(["=", "<", ">", "<=", ">=", "in", "not", "or", "and", "and", "or", "=", "in"]),
        st.lists(inner, max_size=3),
    ),
    max_leaves=6,
).filter(lambda query: isinstance(query, list))


@st.composite
def hosts(draw, name):
    host = make_host(name).service(disabled=draw(st.booleans()), forced_down=draw(st.booleans()))
    host.seen(draw(st.sampled_from([0, 30, -30, 90, -90])))
    host.ram(draw(st.integers(-2, 4)), draw(SMALL)).disk(draw(st.integers(-1024, 3072)), draw(SMALL))
    host.vcpus(draw(SMALL), draw(SMALL)).ratios(*(draw(st.sampled_from([0.5, 1.0, 2.0])) for _ in range(3)))
    host.io_ops(draw(SMALL)).num_instances(draw(SMALL)).stats(draw(STATS)).cpu_info(draw(CPU_INFO))
    host.supports(*draw(TRIPLES)).metrics(dict.fromkeys(draw(st.sets(st.sampled_from("ab"))), 1))
    host.hypervisor(
        draw(st.sampled_from([None, "QEMU", "1"])), draw(st.sampled_from([0, 5000, 6000000, 6001000]))
    )
    for number, metadata in enumerate(draw(st.lists(METADATA, max_size=2))):
        host.aggregate(f"{name} {number}", metadata)
    return host.ip(draw(st.sampled_from(ADDRESSES))).holding(*draw(st.sets(st.sampled_from(UUIDS))))


@st.composite
def specs(draw):
    policy = draw(st.sampled_from(["affinity", "anti-affinity", "anti-affinity", "soft-affinity"]))
    uuids = st.lists(st.sampled_from(UUIDS), max_size=2)
    group = {
        "policy": policy,
        "policies": [policy],
        "members": draw(uuids),
        "hosts": draw(st.lists(st.sampled_from(["h0", "h2"]), max_size=2)),
        "_rules": draw(st.sampled_from([{}, {"max_server_per_host": "2"}])),
    }
    hints = {
        "different_host": draw(uuids),
        "same_host": draw(uuids),
        "build_near_host_ip": draw(st.lists(st.sampled_from(ADDRESSES[:2]), max_size=1)),
        "cidr": [draw(st.sampled_from(["/24", "/8", "/255.255.0.0"]))],
        "query": draw(st.lists(QUERIES.map(json.dumps), max_size=1)),
    }
    image = draw(st.none() | PROPERTIES.map(make_image) | st.just(make_image(id="i")))
    sizes = {"memory_mb": draw(SMALL), "vcpus": draw(SMALL), "root_gb": draw(st.integers(0, 2))}
    return make_spec(
        draw(SPECS),
        image,
        draw(st.sampled_from([None, hints])),
        draw(st.sampled_from([group, None, group])),
        sizes,
        instance_uuid=draw(st.sampled_from(UUIDS)),
        project_id=draw(st.sampled_from([None, "p", "x"])),
        availability_zone=draw(st.sampled_from([None, "x", "nova"])),
    )


CLOUDS = st.integers(1, 4).flatmap(lambda n: st.tuples(*(hosts(f"h{number}") for number in range(n))))


@pytest.fixture(scope="module")
def rules():
    """One object for each rule that has a plain form."""
    conf = make_conf(**CONF)
    return [rule(conf) for rule in builtin.shipped() + builtin.past() if rule.__name__ in per_host.PLAIN]


def outcome(judge):
    """A verdict for each host, or that there are none because something was raised."""
    try:
        return judge()
    except (ValueError, TypeError, AttributeError) as error:
        return type(error).__name__


@settings(max_examples=200)
@given(cloud=CLOUDS, spec=specs())
def test_as_its_plain_form(rules, cloud, spec):
    for rule in rules:
        view, plain = make_view(cloud), per_host.PLAIN[rule.name]

        def at_once(rule=rule, view=view):
            return verdicts(rule, view, request_of(spec))

        def one_by_one(rule=rule, view=view, plain=plain):
            return [plain(host, spec, rule.conf) for host in view.hosts()]

        assert outcome(at_once) == outcome(one_by_one), rule.name
