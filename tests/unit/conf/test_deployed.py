"""nova.conf as the usual deployment tools write it."""

import logging
import pathlib

from keystoneauth1 import loading
import oslo_messaging as messaging
import pytest

from scheduler import conf as options
from scheduler.nova_db.engines import Engines
from scheduler.placement.session import make_adapter
from scheduler.request.network import NeutronNetwork
from scheduler.rules import load_filters as filters
from scheduler.rules import load_weighers as weights

FILES = pathlib.Path(__file__).with_name("deployed")
TOOLS = sorted(path.stem for path in FILES.glob("*.conf"))

DEFAULT_FILTERS = {
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
}

EXPECTED = {
    "kolla-ansible": {
        "DEFAULT.log_dir": "/var/log/kolla/nova",
        "DEFAULT.cpu_allocation_ratio": 4.0,
        "DEFAULT.rpc_response_timeout": 120,
        "api_database.connection_recycle_time": 10,
        "api_database.max_retries": -1,
        "database.max_pool_size": 1,
        "service_user.send_service_user_token": True,
        "oslo_messaging_notifications.driver": ["messagingv2"],
        "oslo_messaging_notifications.topics": ["notifications", "vitrage_notifications"],
        "notifications.notification_format": "both",
        "oslo_messaging_rabbit.use_queue_manager": True,
        "oslo_messaging_rabbit.rabbit_quorum_queue": True,
        "oslo_messaging_rabbit.rabbit_stream_fanout": True,
        "oslo_messaging_rabbit.ssl": True,
        "oslo_concurrency.lock_path": "/var/lib/nova/tmp",
        "scheduler.max_attempts": 10,
        "scheduler.discover_hosts_in_cells_interval": 60,
        "scheduler.workers": 5,
        "placement.password": 'placement"secret',
        "placement.valid_interfaces": ["internal"],
        "neutron.password": "neutronsecret",
    },
    "openstack-ansible": {
        "DEFAULT.use_journal": True,
        "DEFAULT.debug": True,
        "DEFAULT.default_log_levels": [
            "amqp=WARN",
            "amqplib=WARN",
            "boto=WARN",
            "qpid=WARN",
            "sqlalchemy=WARN",
            "suds=INFO",
        ],
        "filter_scheduler.host_subset_size": 10,
        "filter_scheduler.ram_weight_multiplier": 5.0,
        "filter_scheduler.isolated_hosts": ["gpu1", "gpu2"],
        "filter_scheduler.image_props_weight_setting": ["os_distro=2.0", "hw_machine_type = -1"],
        "placement.password": "quoted placement secret",
        "placement.timeout": 30,
        "placement.connect_retries": 5,
        "placement.status_code_retries": 2,
        "oslo_messaging_rabbit.processname": "nova-scheduler",
        "oslo_messaging_rabbit.hostname": "controller1",
        "oslo_messaging_notifications.topics": ["notifications"],
        "database.pool_timeout": 30,
        "keystone_authtoken.username": "nova",
    },
    "devstack": {
        "DEFAULT.graceful_shutdown_timeout": 5,
        "scheduler.workers": 2,
        "scheduler.query_placement_for_image_type_support": True,
        "database.mysql_sql_mode": "TRADITIONAL",
        "placement.region_name": "RegionOne",
        "oslo_reports.file_event_handler": "/opt/stack/data/nova/guru",
    },
    "puppet": {
        "DEFAULT.host": "controller-0.example.com",
        "DEFAULT.initial_cpu_allocation_ratio": 16.0,
        "notifications.notification_format": "versioned",
        "filter_scheduler.shuffle_best_same_weighed_hosts": True,
        "filter_scheduler.isolated_images": [],
        "metrics.required": False,
        "metrics.weight_setting": ["cpu.percent=-1.0", "cpu.frequency=0.5"],
        "oslo_messaging_rabbit.amqp_durable_queues": False,
        "oslo_messaging_rabbit.rabbit_transient_queues_ttl": 600,
        "placement.auth_type": "password",
        "scheduler.max_placement_results": 200,
    },
}

FILTERS = {
    "kolla-ansible": DEFAULT_FILTERS
    | {"AggregateMultiTenancyIsolation", "PciPassthroughFilter", "NUMATopologyFilter"},
    "openstack-ansible": DEFAULT_FILTERS
    | {"AggregateNumInstancesFilter", "AggregateIoOpsFilter", "NUMATopologyFilter"},
    "devstack": DEFAULT_FILTERS | {"SameHostFilter", "DifferentHostFilter"},
    "puppet": DEFAULT_FILTERS
    | {
        "AvailabilityZoneFilter",
        "PciPassthroughFilter",
        "NUMATopologyFilter",
        "AggregateInstanceExtraSpecsFilter",
    },
}

BROKERS = {
    "kolla-ansible": [("openstack", "p@ss/word", f"192.0.2.{n}", 5671) for n in (11, 12, 13)],
    "openstack-ansible": [("nova", "rabbit!secret", f"172.29.236.{n}", 5671) for n in (11, 12, 13)],
    "devstack": [("stackrabbit", "secretrabbit", "192.0.2.5", 5672)],
    "puppet": [("guest", "Zx7/", f"controller-{n}.internalapi.example.com", 5672) for n in (0, 1)],
}

PASSWORDS = {
    "kolla-ansible": ("api$ecret", "nova{secret}"),
    "openstack-ansible": ("nova_api_container_secret", "nova_container_secret"),
    "devstack": ("secretdatabase", "secretdatabase"),
    "puppet": ("Qp3X", "Qp3X"),
}


def load(tool):
    return options.load(["--config-file", str(FILES / f"{tool}.conf")])


@pytest.fixture(params=TOOLS)
def tool(request):
    return request.param


@pytest.fixture
def conf(tool):
    return load(tool)


@pytest.mark.parametrize(
    ("tool", "option", "expected"),
    [(tool, option, value) for tool, values in EXPECTED.items() for option, value in values.items()],
)
def test_values(tool, option, expected):
    group, _, name = option.partition(".")
    found = load(tool)
    assert (found[name] if group == "DEFAULT" else found[group][name]) == expected


def test_every_file_has_its_expectations():
    assert TOOLS == sorted(EXPECTED) == sorted(FILTERS) == sorted(BROKERS) == sorted(PASSWORDS)


def test_no_option_seems_to_be_misspelt(conf):
    assert not [line for line in options.misspelt_options(conf) if "does not exist" in line]


def test_filters_and_weighers(tool, conf):
    assert {each.name for each in filters.load(conf)} == FILTERS[tool]
    assert "RAMWeigher" in {each.name for each in weights.load(conf)}


def test_the_message_bus(tool, conf):
    url = messaging.TransportURL.parse(conf)
    assert url.transport == "rabbit"
    assert [(h.username, h.password, h.hostname, h.port) for h in url.hosts] == BROKERS[tool]


def test_the_databases(tool, conf):
    engines = Engines(conf)
    assert (engines.api().url.password, engines.local().url.password) == PASSWORDS[tool]
    assert engines.local().dialect.driver == "pymysql"


def test_placement(conf):
    assert make_adapter(conf).session.auth._username == "placement"


@pytest.mark.parametrize("tool", ["kolla-ansible", "openstack-ansible", "devstack"])
def test_the_service_token(conf):
    assert loading.load_auth_from_conf_options(conf, "service_user")._username == "nova"


def test_neutron(conf):
    assert NeutronNetwork.from_conf(conf)


def test_no_password_is_logged_with_the_options(tool, conf, caplog):
    with caplog.at_level("DEBUG"):
        conf.log_opt_values(logging.getLogger("options"), logging.DEBUG)
    assert conf.api_database.connection not in caplog.text
    for secret in (*PASSWORDS[tool], "secretservice", "keystonesecret", BROKERS[tool][0][1]):
        assert f"{secret}@" not in caplog.text
        assert f"= {secret}" not in caplog.text
