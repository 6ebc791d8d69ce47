"""What operators' own classes expect to be there: nova's import names, and options.

spec: filters-and-weighers 1.12

A plug-in that says ``from nova.scheduler.filters import BaseHostFilter`` finds Berth's equivalent. Where nova
can be imported plug-ins find nova itself, prepared as by nova's own programs. There is no ``nova.objects`` or
``nova.exception`` here.

Berth itself keeps no global options, but plug-ins know no other: oslo.config's ``CONF``, which is nova's too
where nova is, reads the same files.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
import importlib.machinery
import importlib.util
import sys
from types import ModuleType
from typing import Any

from oslo_config import cfg

from scheduler.conf.option_pairs import parse_options
from scheduler.errors import ClassNotFound
from scheduler.filters import base as filter_bases
from scheduler.filters import extra_specs_ops
from scheduler.filters import utils as filter_utils
from scheduler.rules import installed_nova
from scheduler.rules import load_filters as filters
from scheduler.rules import load_weighers as weights
from scheduler.weights import base as weight_bases

_OURS = ("scheduler.filters.", "scheduler.weights.")


def _public(module: ModuleType) -> dict[str, object]:
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


#: What each module offers.
NAMES: dict[str, dict[str, object]] = {
    "nova": {},
    "nova.filters": {"BaseFilter": filter_bases.BaseFilter},
    "nova.weights": {
        "BaseWeigher": weight_bases.BaseWeigher,
        "WeighedObject": weights.WeighedObject,
        "normalize": weights.normalize,
    },
    # Texts are shown as they are
    "nova.i18n": dict.fromkeys(("_", "_LI", "_LW", "_LE", "_LC"), str),
    "nova.scheduler": {},
    "nova.scheduler.filters": {
        "BaseHostFilter": filter_bases.BaseHostFilter,
        "CandidateFilterMixin": filters.CandidateFilterMixin,
        "all_filters": filters.all_filters,
    },
    "nova.scheduler.filters.extra_specs_ops": _public(extra_specs_ops),
    "nova.scheduler.filters.utils": _public(filter_utils),
    "nova.scheduler.utils": {
        "get_weight_multiplier": weights.get_weight_multiplier,
        "parse_options": parse_options,
        "request_is_rebuild": filter_bases.request_is_rebuild,
    },
    "nova.scheduler.weights": {
        "BaseHostWeigher": weight_bases.BaseHostWeigher,
        "WeighedHost": weights.WeighedHost,
        "all_weighers": weights.all_weighers,
    },
}


def provide(conf: cfg.ConfigOpts) -> None:
    """Make ready for the operators' classes that ``conf`` names; without any nothing is done."""
    theirs = list(_own_modules(conf))
    if not theirs:
        return
    if "nova" not in sys.modules and importlib.util.find_spec("nova") is None:
        _stand_in({**NAMES, "nova.conf": {"CONF": conf}})
    for module in theirs:
        # A path that leads nowhere is reported when it is resolved.
        with suppress(Exception):
            importlib.import_module(module)
    uses_nova = installed_nova.is_imported()
    if uses_nova:
        installed_nova.register_objects()
    # Only now: nova's modules add options of the command line, which is not possible once it was read. And
    # before the classes are made, as their constructors may read options.
    cfg.CONF([], conf.project, default_config_files=conf.config_file, default_config_dirs=conf.config_dir)
    if uses_nova:
        installed_nova.configure()


def _own_modules(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield the modules of the operators' classes that the options name."""
    rules = conf.filter_scheduler
    known: tuple[Mapping[str, Any], ...] = (filters.BUILT_IN, weights.BUILT_IN)
    for paths, built_in in zip((rules.available_filters, rules.weight_classes), known, strict=True):
        for path in paths:
            if path not in built_in:
                if not path.startswith(_OURS):
                    yield path.rpartition(".")[0]
            elif built_in[path] in {filters.all_filters, weights.all_weighers}:
                with suppress(ClassNotFound):
                    yield from (
                        cls.__module__ for cls in built_in[path]() if cls.__module__.startswith("nova.")
                    )


def _stand_in(names: dict[str, dict[str, object]]) -> None:
    for name, contents in names.items():
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        vars(module).update(contents)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
