import pytest

from scheduler import conf as options
from scheduler.conf.partitions import Partition, all_partitions, own_partition
from scheduler.errors import ConfigError
from scheduler.stream.broker import broker_hosts

GENERAL = "[berth_partition_general]\naggregates = pool-a, pool-b\ndefault = true\n"
GPU = """
[berth_partition_GPU]
aggregates = gpu-hosts
cells = cell2
zones = az1, az2
flavors = g1.large, 42
extra_specs = hw:mem_page_size, aggregate:kind=gpu
topic = gpus
"""


@pytest.fixture
def load(tmp_path):
    def load(text, prog=options.PROG):
        path = tmp_path / "nova.conf"
        path.write_text(text)
        return options.load(["--config-file", str(path)], prog)

    return load


def test_without_sections_there_are_no_partitions(load):
    conf = load("[berth]\ncell_timeout = 3\n")
    assert all_partitions(conf) == ()
    assert own_partition(conf) is None


def test_partitions_are_read_from_the_sections_in_order_of_their_names(load):
    assert all_partitions(load(GPU + GENERAL)) == (
        Partition("general", "berth.scheduler.general", aggregates=("pool-a", "pool-b"), default=True),
        Partition(
            "gpu",
            "gpus",
            aggregates=("gpu-hosts",),
            cells=("cell2",),
            zones=frozenset({"az1", "az2"}),
            flavors=frozenset({"g1.large", "42"}),
            extra_specs=(("hw:mem_page_size", None), ("aggregate:kind", "gpu")),
        ),
    )


def test_names_have_no_case(load):
    own = own_partition(load(f"[berth]\npartition = Gpu\n{GPU}"))
    assert own is not None
    assert own.name == "gpu"


def test_a_section_may_stand_in_several_files(tmp_path):
    first, second = tmp_path / "1.conf", tmp_path / "2.conf"
    first.write_text(GENERAL)
    second.write_text("[berth_partition_general]\naggregates = pool-c\n")
    conf = options.load(["--config-file", str(first), "--config-file", str(second)])
    assert all_partitions(conf) == (
        Partition("general", "berth.scheduler.general", aggregates=("pool-c",), default=True),
    )


def test_an_empty_section_as_in_the_sample_is_none(load):
    assert all_partitions(load("[berth_partition_NAME]\n")) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[berth_partition_x]\nzones = a\n", "[berth_partition_x]: neither aggregates nor cells is set"),
        ("[berth_partition_x]\ndefault = maybe\ncells = a\n", "[berth_partition_x]/default: "),
        ("[berth_partition_x y]\ncells = a\n", "'x y' is not a valid name of a partition"),
        (
            "[berth_partition_x]\ncells = a\ntopic = scheduler\n",
            "[berth_partition_x]/topic: scheduler is the queue of other schedulers",
        ),
        (
            "[berth_partition_x]\ncells = a\ntopic = a b\n",
            "[berth_partition_x]/topic: 'a b' is not a valid topic",
        ),
        (
            "[berth_partition_x]\ncells=a\ntopic=t\n[berth_partition_y]\ncells=a\ntopic=t\n",
            "several partitions have the topic 't'",
        ),
        (
            "".join(f"[berth_partition_p{number}]\ncells = a\n" for number in range(41)),
            "there are 41 partitions; at most 40 are allowed",
        ),
        (
            "[berth_partition_x]\ncells = a\nextra_specs = =1\n",
            "[berth_partition_x]/extra_specs: '=1' has no",
        ),
        (
            f"[berth]\npartition = generall\n{GENERAL}",
            "there is no [berth_partition_generall], or nothing is set in it; did you mean general?",
        ),
        (
            "[berth]\npartition = x\n[berth_partition_x]\n",
            "there is no [berth_partition_x], or nothing is set",
        ),
    ],
)
def test_what_cannot_work_is_refused(load, text, problem):
    with pytest.raises(ConfigError) as refused:
        load(text)
    assert problem in str(refused.value)


def test_all_problems_are_named_at_once(load):
    with pytest.raises(ConfigError) as refused:
        load("[berth]\npartition = z\n[berth_partition_x]\nzones = a\n[berth_partition_y]\nzones = a\n")
    assert [name in str(refused.value) for name in ("_x]: neither", "_y]: neither", "_z], or")] == [True] * 3


@pytest.mark.parametrize(
    ("changed", "said"),
    [(GENERAL, 0), (GENERAL.replace("pool-b", "pool-c"), 1), (GENERAL + GPU, 1), (GPU, 1)],
    ids=["nothing", "aggregates", "new section", "other section"],
)
def test_changed_sections_are_told_to_need_a_start(load, tmp_path, caplog, changed, said):
    conf = load(GENERAL)
    (tmp_path / "nova.conf").write_text(changed)
    assert options.reload(conf, ["--config-file", str(tmp_path / "nova.conf")])
    assert [each.name for each in all_partitions(conf)] == ["general"]
    assert all_partitions(conf)[0].aggregates == ("pool-a", "pool-b")
    assert caplog.text.count("sections take effect at the next start") == said


@pytest.mark.parametrize(
    ("sections", "threshold"),
    [
        ("", 7),
        (GENERAL, 7),
        ("[DEFAULT]\nrpc_response_timeout = 27\n", 6),
        ("[DEFAULT]\nrpc_response_timeout = 3\n", 5),
        ("[oslo_messaging_rabbit]\nheartbeat_timeout_threshold = 60\n", 60),
        ("[DEFAULT]\ntransport_url = rabbit://broker/?heartbeat_timeout_threshold=40\n", 40),
    ],
    ids=["unset", "partitions", "short patience", "no patience", "set", "set in the URL"],
)
def test_the_broker_misses_a_frozen_scheduler_within_fifteen_seconds_unless_it_is_set(
    load, sections, threshold
):
    assert {host.settings.heartbeat for host in broker_hosts(load(sections))} == {threshold}
