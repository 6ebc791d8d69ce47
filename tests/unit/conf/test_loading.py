import traceback

import pytest

from scheduler import conf as options
from scheduler import errors


@pytest.fixture
def write(tmp_path):
    def write(text, name="nova.conf"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def load(write):
    def load(text, *arguments):
        return options.load(["--config-file", write(text), *arguments])

    return load


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_nova_conf_is_found_and_berth_s_own_file_comes_second(home, write):
    write("[scheduler]\nmax_attempts=4\nmax_placement_results=7\n", ".nova/nova.conf")
    write("[scheduler]\nmax_attempts=5\n", ".nova/berth-scheduler.conf")
    conf = options.load([])
    assert (conf.scheduler.max_attempts, conf.scheduler.max_placement_results) == (5, 7)


def test_directories_of_nova_conf_are_read_in_sorted_order(home, write):
    write("[scheduler]\nmax_attempts=4\n", ".nova/nova.conf.d/1.conf")
    write("[scheduler]\nmax_attempts=5\n", ".nova/nova.conf.d/2.conf")
    assert options.load([]).scheduler.max_attempts == 5


def test_no_file_at_all_is_no_error(home):
    assert options.load([], default_config_files=[]).scheduler.max_attempts == 3


def test_the_later_file_wins_for_each_option(write):
    first = write("[DEFAULT]\nhost=a\nreport_interval=5\n", "1.conf")
    second = write("[DEFAULT]\nhost=b\n", "2.conf")
    conf = options.load(["--config-file", first, "--config-file", second])
    assert (conf.host, conf.report_interval) == ("b", 5)


def test_environment_before_files(load, monkeypatch):
    monkeypatch.setenv("OS_SCHEDULER__MAX_ATTEMPTS", "8")
    monkeypatch.setenv("OS_DEFAULT__HOST", "from-environment")
    conf = load("[DEFAULT]\nhost=from-file\n[scheduler]\nmax_attempts=4\n")
    assert (conf.scheduler.max_attempts, conf.host) == (8, "from-environment")


def test_command_line_before_environment(load, monkeypatch):
    monkeypatch.setenv("OS_DEFAULT__LOG_FILE", "environment.log")
    assert load("", "--log-file", "argument.log").log_file == "argument.log"


def test_unknown_options_and_groups_are_ignored(load):
    conf = load("[DEFAULT]\nno_such=1\n[nonsense]\nx=y\n[scheduler]\nmax-attempts=7\n")
    assert conf.scheduler.max_attempts == 3


def test_group_names_have_no_case(load):
    assert load("[Scheduler]\nmax_attempts=6\n").scheduler.max_attempts == 6


def test_other_options_are_substituted(load):
    conf = load("[DEFAULT]\nstate_path=/var/lib/nova\n[oslo_concurrency]\nlock_path=$state_path/tmp\n")
    assert conf.oslo_concurrency.lock_path == "/var/lib/nova/tmp"


def test_the_address_of_the_machine_is_substituted(load):
    text = "[DEFAULT]\nmy_ip=192.0.2.7\ntransport_url=rabbit://u:p@$my_ip:5672/\n"
    conf = load(text + "[api_database]\nconnection=mysql+pymysql://u:p@$my_ip/nova_api\n")
    assert conf.transport_url == "rabbit://u:p@192.0.2.7:5672/"
    assert conf.api_database.connection == "mysql+pymysql://u:p@192.0.2.7/nova_api"


def test_the_address_of_the_machine_need_not_be_set(load):
    assert load("[database]\nconnection=mysql://$my_ip/nova\n").database.connection.startswith("mysql://")


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("[DEFAULT]\ntransport_url=rabbit://u:pa$tail@h/\n", "[DEFAULT]/transport_url"),
        ("[api_database]\nconnection=mysql://u:pa$tail@h/d\n", "[api_database]/connection"),
        ("[placement]\nauth_type=password\npassword=pa$tail\n", "[placement]/password"),
        ("[database]\nconnection=mysql://u:pa$scheduler@h/d\n", "[database]/connection"),
    ],
)
def test_a_password_with_an_unescaped_dollar_is_explained_and_not_shown(load, text, option):
    with pytest.raises(errors.ConfigError) as raised:
        load(text)
    assert str(raised.value) == (
        f"{option}: it has a $ before a word that is not the name of an option known here; $$ stands for one $"
    )


def test_repeated_lines_accumulate(load):
    text = "[filter_scheduler]\navailable_filters=a.b\navailable_filters=c.d\nenabled_filters=X, Y\n"
    conf = load(text)
    assert conf.filter_scheduler.available_filters == ["a.b", "c.d"]
    assert conf.filter_scheduler.enabled_filters == ["X", "Y"]


@pytest.mark.parametrize(
    ("old", "group", "name", "expected"),
    [
        ("[DEFAULT]\nrpc_thread_pool_size=9", None, "executor_thread_pool_size", 9),
        ("[DEFAULT]\nlogfile=x.log", None, "log_file", "x.log"),
        ("[DEFAULT]\nlogdir=/tmp/x", None, "log_dir", "/tmp/x"),
        ("[DEFAULT]\nnotification_format=both", "notifications", "notification_format", "both"),
        ("[DEFAULT]\npci_alias={}", "pci", "alias", ["{}"]),
        ("[placement]\nauth_plugin=password", "placement", "auth_type", "password"),
    ],
)
def test_old_names(load, old, group, name, expected):
    conf = load(old + "\n")
    assert (conf[group][name] if group else conf[name]) == expected


def test_the_options_of_the_authentication_plugin_are_known(load):
    conf = load("[placement]\nauth_type=password\nauth_url=http://keystone\nusername=nova\n")
    assert (conf.placement.auth_url, conf.placement.username) == ("http://keystone", "nova")


def test_an_unknown_authentication_plugin_is_for_others_to_refuse(load):
    assert load("[placement]\nauth_type=none_such\n").placement.auth_type == "none_such"


@pytest.mark.parametrize(
    "line",
    [
        "[DEFAULT]/report_interval=often",
        "[DEFAULT]/servicegroup_driver=zookeeper",
        "[DEFAULT]/initial_cpu_allocation_ratio=-1",
        "[DEFAULT]/periodic_fuzzy_delay=-1",
        "[DEFAULT]/executor_thread_pool_size=many",
        "[DEFAULT]/host=two words",
        "[scheduler]/max_attempts=0",
        "[scheduler]/workers=-1",
        "[scheduler]/discover_hosts_in_cells_interval=-2",
        "[scheduler]/max_placement_results=0",
        "[scheduler]/image_metadata_prefilter=perhaps",
        "[filter_scheduler]/host_subset_size=0",
        "[filter_scheduler]/max_instances_per_host=0",
        "[filter_scheduler]/pci_weight_multiplier=-0.1",
        "[filter_scheduler]/ram_weight_multiplier=heavy",
        "[filter_scheduler]/image_properties_default_architecture=pdp11",
        "[metrics]/required=x",
        "[notifications]/notification_format=xml",
        "[placement]/connect_retries=x",
        "[oslo_messaging_rabbit]/heartbeat_rate=x",
        "[database]/max_retries=x",
        "[berth]/host_state_max_age=-1",
    ],
)
def test_a_bad_value_is_named_with_its_group(load, line):
    group, _, setting = line.partition("/")
    with pytest.raises(errors.ConfigError) as raised:
        load(f"{group}\n{setting}\n")
    assert f"{group}/{setting.partition('=')[0]}: " in str(raised.value)


def test_all_bad_values_are_named(load):
    with pytest.raises(errors.ConfigError) as raised:
        load("[scheduler]\nmax_attempts=0\nworkers=x\n")
    assert "max_attempts" in str(raised.value)
    assert "workers" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[scheduler]\nworkers=many\n", "[scheduler]/workers: 'many' is not a whole number (in {path})"),
        ("[berth]\ncell_timeout=soon\n", "[berth]/cell_timeout: 'soon' is not a number (in {path})"),
        (
            "[filter_scheduler]\nhost_subset_size=0\n",
            "[filter_scheduler]/host_subset_size: Should be greater than or equal to 1 (in {path})",
        ),
    ],
    ids=["whole number", "number", "range"],
)
def test_a_bad_value_is_said_in_plain_words_with_its_file(write, text, said):
    path = write(text)
    with pytest.raises(errors.ConfigError) as raised:
        options.load(["--config-file", str(path)])
    assert str(raised.value) == said.format(path=path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[berth]\ncell_timout=4\n",
            "[berth]/cell_timout does not exist and is ignored; did you mean cell_timeout?",
        ),
        ("[berth]\nzzz=4\n", "[berth]/zzz does not exist and is ignored"),
        ("[breth]\na=4\n", "the group [breth] does not exist and is ignored; did you mean [berth]?"),
        (
            "[berth_partition_x]\ncells=a\nagregates=b\n",
            "[berth_partition_x]/agregates does not exist and is ignored; did you mean aggregates?",
        ),
        (
            "[berth_partiton_x]\ncells=a\n",
            "the group [berth_partiton_x] does not exist and is ignored; did you mean [berth_partition_x]?",
        ),
        (
            "[berth-partition-x]\ncells=a\n",
            "the group [berth-partition-x] does not exist and is ignored; did you mean [berth_partition_x]?",
        ),
        (
            "[berth]\ncell-timeout=4\n",
            "[berth]/cell-timeout does not exist and is ignored; did you mean cell_timeout?",
        ),
        (
            "[filter_scheduler]\nenabled_filter=ComputeFilter\n",
            "[filter_scheduler]/enabled_filter does not exist and is ignored; did you mean enabled_filters?",
        ),
        (
            "[metrics]\nweigth_multiplier=2\n",
            "[metrics]/weigth_multiplier does not exist and is ignored; did you mean weight_multiplier?",
        ),
        (
            "[Scheduler]\nmax_atempts=4\n",
            "[Scheduler]/max_atempts does not exist and is ignored; did you mean max_attempts?",
        ),
        (
            "[DEFAULT]\nservice_downtime=4\n",
            "[DEFAULT]/service_downtime does not exist and is ignored; did you mean service_down_time?",
        ),
        (
            "[placement]\nauth_type=password\nusernam=x\n",
            "[placement]/usernam does not exist and is ignored; did you mean username?",
        ),
        (
            "[placment]\na=4\n",
            "the group [placment] does not exist and is ignored; did you mean [placement]?",
        ),
        (
            "[schedular]\na=4\n",
            "the group [schedular] does not exist and is ignored; did you mean [scheduler]?",
        ),
        ("[default]\na=4\n", "the group [default] does not exist and is ignored; did you mean [DEFAULT]?"),
    ],
    ids=lambda text: text.replace("\n", " ").strip()[:40],
)
def test_an_unknown_option_or_group_is_named(load, text, said):
    lines = list(options.remarks(load(text)))
    assert [line.partition(": ")[2] for line in lines if "ignored" in line] == [said]


def test_options_and_groups_of_others_are_not_named(load):
    conf = load(
        "[nova]\nx=1\n[health]\ny=1\n[scheduler]\nplacement_aggregate=3\n[Berth]\ncell_timeout=3\n"
        "[DEFAULT]\nlogfile=x\ninstances_path=y\nshutdown_timeout=1\n[placement]\nuser_name=z\n"
        "[oslo_messaging_kafka]\nkafka_max_fetch_bytes=1\n"
    )
    assert not [line for line in options.remarks(conf) if "ignored" in line]


def test_unknown_options_are_named_in_files_of_a_directory_too(tmp_path):
    (tmp_path / "b.conf").write_text("[berth]\nmirror=1\n")
    conf = options.load([f"--config-dir={tmp_path}"], default_config_files=[])
    assert any(str(tmp_path / "b.conf") in line for line in options.remarks(conf))


def test_a_bad_value_of_somebody_else_does_not_matter(load):
    assert load("[ironic]\napi_max_retries=x\n[oslo_messaging_kafka]\nkafka_max_fetch_bytes=x\n").host


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(errors.ConfigError, match=r"absent\.conf"):
        options.load(["--config-file", str(tmp_path / "absent.conf")])


def test_a_file_that_cannot_be_parsed_is_refused(load):
    with pytest.raises(errors.ConfigError, match="cannot be read"):
        load("max_attempts\n")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[database]\npassword hunter2secret\n", 2),
        ("[placement]\n\n=hunter2secret\n", 3),
        ("[hunter2secret\n", 1),
        ("  hunter2secret\n", 1),
    ],
    ids=["no equals sign", "no name", "no bracket", "continues nothing"],
)
def test_a_line_that_cannot_be_parsed_is_named_by_its_number_and_not_shown(load, text, line):
    """It may be a password whose equals sign was forgotten; a traceback must not show it either."""
    with pytest.raises(errors.ConfigError, match=rf"nova\.conf, line {line}: ") as caught:
        load(text)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_an_unknown_argument_ends_with_2(capsys):
    with pytest.raises(SystemExit) as end:
        options.load(["--no-such-argument"], default_config_files=[])
    assert end.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_version_alone_is_printed(capsys):
    with pytest.raises(SystemExit) as end:
        options.load(["--version"], version="1.2.3", default_config_files=[])
    assert end.value.code == 0
    assert capsys.readouterr().out == "1.2.3\n"


@pytest.mark.parametrize("flag", ["--use-json", "--use-journal", "--use-syslog", "--nodebug", "-d"])
def test_logging_arguments_are_taken(flag):
    assert options.load([flag], default_config_files=[])


def test_databases_must_be_given(load):
    with pytest.raises(errors.ConfigError, match=r"\[api_database\]/connection"):
        options.require_databases(load("[database]\nconnection=sqlite://\n"))
    options.require_databases(load("[api_database]\nconnection=sqlite://\n"))


class TestReload:
    def reload(self, write, before, after):
        path = write(before)
        argv = ["--config-file", path]
        conf = options.load(argv)
        write(after)
        return conf, options.reload(conf, argv)

    def test_mutable_options_change_and_others_stay(self, write):
        conf, done = self.reload(
            write,
            "[DEFAULT]\nhost=a\n[filter_scheduler]\nram_weight_multiplier=1\n",
            "[DEFAULT]\nhost=b\n[filter_scheduler]\nram_weight_multiplier=2\n",
        )
        assert done
        assert (conf.host, conf.filter_scheduler.ram_weight_multiplier) == ("a", 2.0)

    @pytest.mark.parametrize(
        "mistake",
        ["[scheduler]\nmax_attempts=none\n", "[scheduler\n", "[DEFAULT]\nreport_interval=x\n"],
    )
    def test_a_mistake_changes_nothing(self, write, mistake):
        conf, done = self.reload(write, "[scheduler]\nmax_attempts=4\n", mistake)
        assert not done
        assert conf.scheduler.max_attempts == 4

    def test_a_file_that_is_gone_changes_nothing(self, write, tmp_path):
        argv = ["--config-file", write("[scheduler]\nmax_attempts=4\n")]
        conf = options.load(argv)
        (tmp_path / "nova.conf").unlink()
        assert not options.reload(conf, argv)
        assert conf.scheduler.max_attempts == 4

    def test_a_file_that_is_no_text_changes_nothing_and_is_one_line(self, tmp_path, caplog):
        path = tmp_path / "nova.conf"
        path.write_text("[scheduler]\nmax_attempts=4\n")
        argv = ["--config-file", str(path)]
        conf = options.load(argv)
        path.write_bytes(b"[scheduler]\nmax_attempts=5\n# \xff\n")
        assert not options.reload(conf, argv)
        assert conf.scheduler.max_attempts == 4
        (refusal,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert "all options stay as they were: Configuration cannot be read" in refusal.getMessage()
        assert refusal.exc_info is None

    @pytest.mark.parametrize("text", ["[scheduler]\nmax_attempts=none\n", "[scheduler]\nmax_attempts=6\n"])
    def test_a_file_that_changes_while_it_is_checked_changes_nothing(self, write, text):
        """The check takes seconds, and whoever writes a file may do so twice."""
        argv = ["--config-file", write("[scheduler]\nmax_attempts=4\n")]
        conf = options.load(argv)
        write("[scheduler]\nmax_attempts=5\n")
        assert not options.reload(conf, argv, lambda _changed: write(text))
        assert conf.scheduler.max_attempts == 4

    def test_a_mistake_in_a_file_of_the_router_alone_changes_nothing(self, home, write):
        """Directories with files go by the name of the program."""
        write("[berth_partition_a]\naggregates=a\n", ".nova/nova.conf")
        write("[scheduler]\nmax_attempts=4\n", ".nova/berth-router.conf.d/1.conf")
        conf = options.load([], "berth-router")
        write("[scheduler]\nmax_attempts=none\n", ".nova/berth-router.conf.d/1.conf")
        assert not options.reload(conf, [])
        assert conf.scheduler.max_attempts == 4


def test_a_temporary_directory_is_tried(tmp_path):
    conf = options.load([], default_config_files=[])
    conf.set_override("tempdir", str(tmp_path))
    options.check_files(conf)
    assert list(tmp_path.iterdir()) == []
    conf.set_override("tempdir", str(tmp_path / "absent"))
    with pytest.raises(errors.ConfigError, match="tempdir"):
        options.check_files(conf)


def test_without_any_file_it_is_said_where_one_was_looked_for(home):
    with pytest.raises(
        errors.ConfigError, match=r"No configuration file was found: .*in ~/\.nova, ~, /etc/nova"
    ):
        options.require_databases(options.load([], default_config_files=[]))
