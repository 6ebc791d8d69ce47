"""A plug-in that imports nova's names, where there is no nova, and where there is."""

import sys
import textwrap
from types import ModuleType

from oslo_config import cfg
import pytest

from scheduler import conf as options
from scheduler.errors import ClassNotFound
from scheduler.filters import builtin as built_in_filters
from scheduler.rules import dotted_paths, nova_modules
from scheduler.rules import installed_nova as rules_of_nova
from scheduler.rules import load_filters as filter_loader
from scheduler.rules import load_weighers as weight_loader
from scheduler.weights import builtin as built_in_weighers
from tests.builders import make_host, make_view
from tests.support.novas_modules import novas_modules, without_novas_modules
from tests.unit.filters.asking import verdicts
from tests.unit.selection.requests import make_conf, make_request
from tests.unit.weights.weighing import scores

PLUGIN = """
from oslo_log import log as logging

from nova.scheduler import filters
from nova.scheduler import utils
from nova.scheduler.filters import extra_specs_ops
from nova.scheduler.filters import utils as filter_utils
from nova.scheduler import weights
import nova.filters
import nova.weights

LOG = logging.getLogger(__name__)


class Tiered(filters.BaseHostFilter):
    RUN_ON_REBUILD = False

    def __init__(self):
        self.name = "of its own"

    def host_passes(self, host_state, spec_obj):
        tiers = filter_utils.aggregate_values_from_key(host_state, "tier")
        return any(extra_specs_ops.match(tier, "s== gold") for tier in tiers)


class Free(weights.BaseHostWeigher):
    minval = 1000

    def weight_multiplier(self, host_state):
        return utils.get_weight_multiplier(host_state, "free_weight_multiplier", 2.0)

    def _weigh_object(self, host_state, spec_obj):
        assert not utils.request_is_rebuild(spec_obj)
        return host_state.free_ram_mb


class Unclamped(Free):
    def weigh_objects(self, weighed_obj_list, weight_properties):
        return [weighed.obj.free_ram_mb for weighed in weighed_obj_list]


class Abstract(weights.BaseHostWeigher):
    pass
"""
PLUGINS = ["tiers_plugin.Tiered"]
OPTIONS = """
from oslo_config import cfg
from nova.scheduler import filters
import nova.conf

CONF = nova.conf.CONF
AT_IMPORT = CONF.filter_scheduler.max_io_ops_per_host
cfg.CONF.register_opts([cfg.StrOpt("tier", default="tin")], "tiers")


class Tiered(filters.BaseHostFilter):
    def __init__(self):
        self.tier = cfg.CONF.tiers.tier

    def host_passes(self, host_state, spec_obj):
        return AT_IMPORT == CONF.filter_scheduler.max_io_ops_per_host == 3 and self.tier == host_state.host
"""


def plugged(paths=PLUGINS, **options):
    return make_conf(available_filters=list(paths), enabled_filters=["Tiered"], **options)


@pytest.fixture
def without_nova(monkeypatch, tmp_path):
    """As if nova were not installed; what is put in its place is taken away again."""
    real = nova_modules.importlib.util.find_spec
    monkeypatch.setattr(
        nova_modules.importlib.util, "find_spec", lambda name: None if name == "nova" else real(name)
    )
    (tmp_path / "tiers_plugin.py").write_text(textwrap.dedent(PLUGIN))
    monkeypatch.syspath_prepend(tmp_path)
    with without_novas_modules():
        yield
    cfg.CONF.reset()
    sys.modules.pop("tiers_plugin", None)


@pytest.mark.usefixtures("without_nova")
def test_a_filter_written_for_nova_runs():
    conf = plugged()
    nova_modules.provide(conf)
    (rule,) = filter_loader.load(conf)
    view = make_view(
        [make_host("h1").aggregate("a", tier="gold"), make_host("h2").aggregate("b", tier="tin")]
    )
    assert verdicts(rule, view, make_request()) == [True, False]
    assert rule.name == "Tiered"


@pytest.mark.usefixtures("without_nova")
@pytest.mark.parametrize(
    ("name", "totals"),
    # raw 500, 1500, 2000, at least 1000: the base class clamps, an override does not
    [("Free", [0, 1, 6]), ("Unclamped", [-1, 1, 6])],
)
def test_a_weigher_written_for_nova_runs(name, totals):
    conf = make_conf(weight_classes=[f"tiers_plugin.{name}"])
    nova_modules.provide(conf)
    weighers = weight_loader.load(conf)
    hosts = [make_host("h1").ram(500), make_host("h2").ram(1500), make_host("h3").ram(2000)]
    hosts[2].aggregate("a", free_weight_multiplier="6").aggregate("b", free_weight_multiplier="7")
    assert scores(weighers, make_view(hosts)).totals() == pytest.approx(totals)


@pytest.mark.usefixtures("without_nova")
def test_a_weigher_that_lacks_its_method_is_refused():
    nova_modules.provide(plugged())
    with pytest.raises(TypeError):
        weight_loader.load(make_conf(weight_classes=["tiers_plugin.Abstract"]))


@pytest.mark.usefixtures("without_nova")
def test_the_modules_offer_what_plug_ins_import():
    nova_modules.provide(plugged())
    from nova import filters, weights
    from nova.scheduler import filters as host_filters
    from nova.scheduler import utils
    from nova.scheduler import weights as host_weights

    assert issubclass(host_filters.BaseHostFilter, filters.BaseFilter)
    assert issubclass(host_weights.BaseHostWeigher, weights.BaseWeigher)
    assert issubclass(host_weights.WeighedHost, weights.WeighedObject)
    assert host_filters.CandidateFilterMixin
    assert host_filters.all_filters() == list(built_in_filters.SHIPPED)
    assert host_weights.all_weighers() == list(built_in_weighers.ALL)
    assert weights.normalize([20, 50], 0, 100) == [0.2, 0.5]
    assert weights.normalize([1.0, 1.0]) == [0, 0]
    assert weights.normalize([]) == []
    assert utils.parse_options(["a=1", "b", "a=2"], converter=int) == [("a", 1), ("a", 2)]
    host = make_view([make_host("h")]).host(0)
    weighed = host_weights.WeighedHost(host, 2.0)
    assert weighed.to_dict() == {"weight": 2.0, "host": "h"}
    assert str(weighed) == f"WeighedHost [host: {host!r}, weight: 2.0]"


@pytest.mark.usefixtures("without_nova")
@pytest.mark.parametrize(
    ("texts", "expected"), [([], 1.5), (["2", " 1.9 "], 1.9), (["bad", "2"], 1.5), (["1,2"], 1.5)]
)
def test_multipliers_of_aggregates(texts, expected):
    nova_modules.provide(plugged())
    from nova.scheduler.utils import get_weight_multiplier

    host = make_host("h")
    for number, text in enumerate(texts):
        host.aggregate(f"a{number}", key=text)
    assert get_weight_multiplier(make_view([host]).host(0), "key", 1.5) == expected


@pytest.mark.usefixtures("without_nova")
@pytest.mark.parametrize("paths", [[], ["nova.scheduler.filters.all_filters"]])
def test_without_plug_ins_there_is_nothing_of_nova(paths):
    nova_modules.provide(plugged(paths))
    assert novas_modules() == []
    assert "config_file" not in cfg.CONF


@pytest.mark.usefixtures("without_nova")
def test_options_are_found_where_plug_ins_look(tmp_path):
    (tmp_path / "tiers_plugin.py").write_text(OPTIONS)
    (tmp_path / "nova.conf").write_text("[filter_scheduler]\nmax_io_ops_per_host = 3\n[tiers]\ntier = gold\n")
    conf = options.new()
    conf([], project="nova", default_config_files=[str(tmp_path / "nova.conf")], default_config_dirs=[])
    conf.set_override("available_filters", PLUGINS, "filter_scheduler")
    nova_modules.provide(conf)
    (rule,) = filter_loader.enable(conf, ["Tiered"], {"Tiered": sys.modules["tiers_plugin"].Tiered})
    view = make_view([make_host("gold"), make_host("tin")])
    assert verdicts(rule, view, make_request()) == [True, False]


@pytest.mark.usefixtures("without_nova")
def test_where_nova_is_loaded_it_is_left_alone(monkeypatch):
    theirs = ModuleType("nova")
    monkeypatch.setitem(sys.modules, "nova", theirs)
    nova_modules.provide(plugged())
    assert novas_modules() == ["nova"]
    assert sys.modules["nova"] is theirs


@pytest.mark.usefixtures("without_nova")
def test_where_nova_is_installed_it_is_left_alone(monkeypatch):
    monkeypatch.setattr(nova_modules.importlib.util, "find_spec", lambda name: object())
    nova_modules.provide(plugged())
    assert novas_modules() == []


BASES = "class {0}:\n    RUN_ON_REBUILD = False\n    run_filter_once_per_request = False\n    minval = maxval = None\n"
CONFIGURED = "CALLS = []\ndef {0}(conf):\n    CALLS.append(conf.api_database.connection)\n"

#: A nova as far as it concerns rules, with what an operator has put into its package.
INSTALLED = {
    "__init__.py": "",
    "objects/__init__.py": "def register_all():\n    global AggregateList\n    class AggregateList: pass\n",
    "rpc.py": CONFIGURED.format("init"),
    "db/__init__.py": "",
    "db/api/__init__.py": "",
    "db/api/api.py": CONFIGURED.format("configure"),
    "db/main/__init__.py": "",
    "db/main/api.py": CONFIGURED.format("configure"),
    "conf.py": """
        from oslo_config import cfg
        CONF = cfg.CONF
        CONF.register_opts([cfg.StrOpt("connection")], "api_database")
    """,
    "scheduler/__init__.py": "",
    "scheduler/filters/__init__.py": BASES.format("BaseHostFilter")
    + "def all_filters():\n    from nova.scheduler.filters import own, ram_filter\n"
    "    return [own.OwnFilter, ram_filter.RamFilter]\n",
    "scheduler/filters/ram_filter.py": """
        from nova.scheduler import filters
        class RamFilter(filters.BaseHostFilter): pass
    """,
    "scheduler/filters/own.py": """
        import nova.conf
        from nova import objects
        from nova.scheduler import filters

        class OwnFilter(filters.BaseHostFilter):
            def __init__(self):
                self.known = objects.AggregateList

            def host_passes(self, host_state, spec_obj):
                return True
    """,
    "scheduler/weights/__init__.py": BASES.format("BaseHostWeigher"),
}


@pytest.fixture
def installed_nova(monkeypatch, tmp_path):
    """A nova in the path, not imported yet; what was imported is taken away again."""
    for name, text in INSTALLED.items():
        path = tmp_path / "nova" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    with without_novas_modules():
        rules_of_nova.configure.cache_clear()
        dotted_paths._returned.cache_clear()
        yield tmp_path / "nova"
    dotted_paths._returned.cache_clear()
    rules_of_nova.configure.cache_clear()
    cfg.CONF.reset()


@pytest.fixture
def conf_of_nova(tmp_path):
    """A function from lines of [filter_scheduler] to options from a file."""

    def conf_of_nova(lines):
        path = tmp_path / "nova.conf"
        path.write_text(f"[api_database]\nconnection = sqlite:///api\n[filter_scheduler]\n{lines}\n")
        return options.load(["--config-file", str(path)])

    return conf_of_nova


ALL_OR_ONE = ("nova.scheduler.filters.all_filters", "nova.scheduler.filters.own.OwnFilter")


@pytest.mark.parametrize("available", ALL_OR_ONE)
def test_a_class_inside_the_package_of_an_installed_nova_finds_nova_set_up(
    installed_nova, conf_of_nova, available
):
    conf = conf_of_nova(f"available_filters = {available}\nenabled_filters = OwnFilter")
    for _ in range(2):  # as at SIGHUP
        nova_modules.provide(conf)
        (rule,) = filter_loader.load(conf)
    assert rule.inner.known.__name__ == "AggregateList"
    for module in ("nova.rpc", "nova.db.api.api", "nova.db.main.api"):
        assert sys.modules[module].CALLS == ["sqlite:///api"]


def test_built_in_classes_stay_those_of_berth(installed_nova, conf_of_nova):
    conf = conf_of_nova("enabled_filters = RamFilter")
    nova_modules.provide(conf)
    (rule,) = filter_loader.load(conf)
    assert type(rule).__module__ == "scheduler.filters.amount_filters"


def test_a_nova_without_classes_of_the_operator_is_not_imported(installed_nova, conf_of_nova):
    (installed_nova / "scheduler/filters/own.py").unlink()
    conf = conf_of_nova("enabled_filters = ComputeFilter")
    nova_modules.provide(conf)
    filter_loader.load(conf)
    assert novas_modules() == []


def test_a_nova_that_cannot_be_imported_is_named(installed_nova, conf_of_nova):
    (installed_nova / "conf.py").write_text("import no_such_library\n")
    conf = conf_of_nova("enabled_filters = OwnFilter")
    nova_modules.provide(conf)
    with pytest.raises(
        ClassNotFound, match=r"nova\.scheduler\.filters in .*No module named 'no_such_library'"
    ):
        filter_loader.load(conf)


@pytest.mark.usefixtures("without_nova")
@pytest.mark.parametrize(
    ("option", "path", "why"),
    [
        ("available_filters", "needy_plugin.Needy", "No module named 'nova.objects'"),
        ("available_filters", "nova.scheduler.filters.own.OwnFilter", "nova has no such filter"),
        ("weight_classes", "needy_plugin.Needy", "No module named 'nova.objects'"),
        ("weight_classes", "nova.scheduler.weights.own.OwnWeigher", "nova has no such filter"),
    ],
)
def test_without_nova_a_class_that_needs_it_says_to_install_it(tmp_path, option, path, why):
    (tmp_path / "needy_plugin.py").write_text("import nova.objects\n")
    conf = make_conf(**{option: [path]})
    nova_modules.provide(conf)
    load = filter_loader.load if option == "available_filters" else weight_loader.load
    install = r"install nova where Berth runs \(pip install nova\)"
    with pytest.raises(ClassNotFound, match=rf"{path} could not be .*{why}.*{install}"):
        load(conf)


@pytest.mark.usefixtures("without_nova")
def test_texts_of_old_filters_are_left_as_they_are():
    nova_modules.provide(plugged())
    from nova.i18n import _LI, _

    assert (_("a %s"), _LI("b")) == ("a %s", "b")
