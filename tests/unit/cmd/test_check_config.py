import pytest

from scheduler import conf as options
from scheduler.cmd import scheduler as command
from scheduler.conf.registry import registered
from scheduler.filters.base import BaseHostFilter

CONF = """\
[DEFAULT]
transport_url = rabbit://u:secret@127.0.0.1:1/
[api_database]
connection = sqlite://
[placement]
auth_type = password
auth_url = http://me:secret@keystone/
password = secret
[scheduler]
max_attempts = 4
max_placement_results = 1000
[filter_scheduler]
enabled_filters = {filters}
{more}
"""


@pytest.fixture
def check(tmp_path, capfd):
    """A function from enabled filters and more options to exit status, standard output and standard error."""

    def check(filters="ComputeFilter,NUMATopologyFilter", more="", *arguments):
        path = tmp_path / "nova.conf"
        path.write_text(CONF.format(filters=filters, more=more))
        status = command.main(["--config-file", str(path), "--check-config", *arguments])
        captured = capfd.readouterr()
        assert "secret" not in captured.out + captured.err
        return status, captured.out, captured.err

    return check


def test_what_differs_from_the_defaults_is_shown_without_secrets(check):
    status, output, _ = check()
    assert status == 0
    lines = output.splitlines()
    assert "[scheduler]" in lines
    assert "max_attempts = 4  # default: 3" in lines
    assert "password = ****" in lines
    assert "auth_url = http://***@keystone/  # default: not set" in lines
    assert not [line for line in lines if line.startswith(("max_placement_results", "config_file"))]
    assert lines[-1] == "The configuration can be used"


@pytest.mark.parametrize(
    ("filters", "more", "said"),
    [
        ("RamFiltr", "", "Scheduler Host Filter RamFiltr could not be found. Did you mean RamFilter?"),
        (
            "ComputeFilter",
            "weight_classes = nova.scheduler.weights.ram.Ram",
            "nova has no such filter or weigher",
        ),
        ("ComputeFilter", "weight_classes = tests.unit.cmd.test_check_config.ends", "ended"),
        ("ComputeFilter", "host_subset_size = 0", "[filter_scheduler]/host_subset_size"),
        ("ComputeFilter", "[berth]\nmonitoring_listen = 0.0.0.0:1", "[berth]/monitoring_listen = 0.0.0.0:1"),
        ("ComputeFilter", "[placement]\nauth_type = passwd", "passwd"),
        ("ComputeFilter", "[DEFAULT]\nservicegroup_driver = mc", "[DEFAULT]/servicegroup_driver = mc"),
        ("ComputeFilter", "[DEFAULT]\ntempdir = /no/such", "[DEFAULT]/tempdir"),
        (
            "ComputeFilter",
            "available_filters = nova.scheduler.filters.all_filters,own.Filter",
            "it has a comma; give the option once for each",
        ),
        (
            "ComputeFilter",
            f"available_filters = {__name__}.Own",
            "could not be found. available_filters is set without nova.scheduler.filters.all_filters",
        ),
        (
            "ComputeFilter",
            "[oslo_messaging_notifications]\ndriver = messagingv2\ntransport_url = kafka://h:9092/",
            "install the package of this driver",
        ),
        *(
            ("ComputeFilter", f"[placement]\n{more}{option} = /no/such", f"[placement]/{option}: cannot open")
            for option, more in (
                ("cafile", "auth_url = https://keystone/\n"),
                ("cafile", "endpoint_override = https://placement/\n"),
                ("certfile", ""),
                ("keyfile", ""),
            )
        ),
        *(
            (
                "ComputeFilter",
                f"[oslo_messaging_rabbit]\nssl = true\n{option} = /no/such",
                f"[oslo_messaging_rabbit]/{option}: cannot open /no/such: No such file or directory",
            )
            for option in ("ssl_ca_file", "ssl_cert_file", "ssl_key_file")
        ),
    ],
    ids=[
        *("filter", "weigher", "rule that exits", "value", "address", "plugin", "driver", "directory"),
        *("comma", "no default filters", "kafka", "authority of Keystone", "authority of Placement"),
        *("certificate", "key", "authority of the broker", "certificate for it", "key for it"),
    ],
)
def test_what_would_end_the_start_is_said_with_status_1(check, filters, more, said):
    status, output, errors = check(filters, more)
    assert status == 1
    assert "can be used" not in output
    (line,) = errors.splitlines()
    assert line.startswith("berth-scheduler: ")
    assert said in line


OVERRIDE = f"[DEFAULT]\ntransport_url = rabbit://u@h/?ssl_ca_file={__file__}"


@pytest.mark.parametrize(
    "more",
    [
        "[placement]\ninsecure = true\nauth_url = https://keystone/\ncafile = /no/such",
        "[placement]\ncafile = /no/such",
        "[oslo_messaging_rabbit]\nssl = false\nssl_ca_file = /no/such",
        "[oslo_messaging_rabbit]\nssl = true\nssl_ca_file = /no/such\n" + OVERRIDE,
    ],
    ids=["not verified", "no HTTPS", "no TLS", "another file in the URL"],
)
def test_a_file_that_nothing_opens_may_be_missing(check, more):
    assert check(more=more)[0] == 0


@pytest.mark.parametrize(
    ("more", "warning"),
    [
        ("[neutron]\ncertfile = /no/such", "Warning: [neutron]/certfile: cannot open /no/such"),
        (
            "ram_weigth_multiplier = 2",
            "ram_weigth_multiplier does not exist and is ignored; did you mean ram_weight_multiplier?",
        ),
    ],
)
def test_a_missing_file_for_neutron_and_a_misspelt_option_are_warnings(check, more, warning):
    status, output, _ = check(more=more)
    assert status == 0
    assert warning in output


def test_options_of_libraries_that_are_deprecated_may_be_set(check):
    deprecated = [
        (group, option)
        for group, option, _ in registered(options.new())
        if option.deprecated_for_removal and group == "oslo_messaging_rabbit"
    ]
    assert "direct_mandatory_flag" in {option.dest for _, option in deprecated}
    lines = [f"[{group}]\n{option.dest} = {option.default}" for group, option in deprecated]
    status, output, _ = check(more="\n".join([*lines, "[placement]\ninterface = internal"]))
    assert status == 0
    assert output.splitlines()[-1] == "The configuration can be used"


@pytest.mark.parametrize("text", ["", "[loggers]\nkeys=root\n[logger_root]\nlevel=LOUD\nhandlers=\n"])
def test_a_logging_configuration_with_a_mistake_is_refused(check, tmp_path, text):
    path = tmp_path / "logging.conf"
    path.write_text(f"{text}[handlers]\nkeys=\n[formatters]\nkeys=\n")
    status, _, errors = check(more=f"[DEFAULT]\nlog_config_append = {path}")
    assert (status, f"[DEFAULT]/log_config_append: {path}: " in errors) == (1, True)


class Own(BaseHostFilter):
    pass


def ends():
    raise SystemExit("ended")


def test_it_says_where_the_log_goes(check, tmp_path):
    _, output, _ = check()
    assert "Log: Lines of INFO and above go to standard output" in output.splitlines()
    (tmp_path / "logging.conf").write_text(NOTHING)
    _, output, _ = check(more=f"[DEFAULT]\nlog_config_append = {tmp_path}/logging.conf")
    (line,) = [line for line in output.splitlines() if line.endswith("all lines of the log are lost")]
    assert line.startswith(f"Warning: [DEFAULT]/log_config_append = {tmp_path}/logging.conf gives no handler")


NOTHING = """
[loggers]
keys = root
[handlers]
keys = nothing
[formatters]
keys =
[handler_nothing]
class = logging.NullHandler
args = ()
[logger_root]
handlers = nothing
"""


#: Nothing to warn of on any machine.
SETTLED = "[database]\nconnection = sqlite://\n[scheduler]\nworkers = 1\n"


@pytest.mark.parametrize(
    ("more", "status"), [("", 0), ("[berth]\ncell_timout = 2", 4)], ids=["clean", "warning"]
)
def test_with_strict_warnings_have_a_status_of_their_own(check, more, status):
    assert check(more=SETTLED + more)[0] == 0
    found, output, _ = check("ComputeFilter", SETTLED + more, "--strict")
    assert found == status
    assert "The configuration can be used" in output


def test_each_finding_is_one_line(check):
    more = "[DEFAULT]\ntempdir = /no/such\n[berth]\nmonitoring_listen = 0.0.0.0:1"
    status, _, errors = check("Nope", more)
    assert status == 1
    lines = errors.splitlines()
    assert [line.split()[0] for line in lines] == ["berth-scheduler:"] * 3
    for line, said in zip(
        lines, ("[DEFAULT]/tempdir", "[berth]/monitoring_listen", "Filter Nope"), strict=True
    ):
        assert said in line


def test_each_wrong_value_is_one_line(check):
    status, _, errors = check(more="host_subset_size = 0\n[scheduler]\nworkers = many")
    assert status == 1
    assert len(errors.splitlines()) == 2


def test_an_unknown_driver_is_named_with_one_option(check):
    status, _, errors = check(more="[DEFAULT]\ntransport_url = rabit://u:secret@127.0.0.1:1/")
    assert status == 1
    (line,) = errors.splitlines()
    assert line.startswith(
        'berth-scheduler: [DEFAULT]/transport_url cannot be used: Failed to load transport driver "rabit"'
    )
