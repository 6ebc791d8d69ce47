"""nova's import names for operators' own classes, where there is no nova (spec: filters-and-weighers 1.12).

A plug-in that says ``from nova.scheduler.filters import BaseHostFilter`` then finds Berth's equivalent. Where
nova can be imported it is left alone. There is no ``nova.conf``, ``nova.objects`` or ``nova.exception`` here.
"""

from collections.abc import Iterable
import importlib.machinery
import importlib.util
import sys

from scheduler.filters import extra_specs_ops
from scheduler.filters import nova_style as filters
from scheduler.filters import utils as filter_utils
from scheduler.plugins import NOVA_PREFIXES
from scheduler.weights import nova_style as weights

_OURS = (*NOVA_PREFIXES, "scheduler.filters.", "scheduler.weights.")

#: What each module offers.
NAMES = {
    "nova": {},
    "nova.filters": {"BaseFilter": filters.BaseFilter},
    "nova.weights": {
        "BaseWeigher": weights.BaseWeigher,
        "WeighedObject": weights.WeighedObject,
        "normalize": weights.normalize,
    },
    "nova.scheduler": {},
    "nova.scheduler.filters": {
        "BaseHostFilter": filters.BaseHostFilter,
        "CandidateFilterMixin": filters.CandidateFilterMixin,
        "all_filters": filters.all_filters,
    },
    "nova.scheduler.filters.extra_specs_ops": vars(extra_specs_ops),
    "nova.scheduler.filters.utils": vars(filter_utils),
    "nova.scheduler.utils": {
        "get_weight_multiplier": weights.get_weight_multiplier,
        "parse_options": filter_utils.parse_options,
        "request_is_rebuild": filters.request_is_rebuild,
    },
    "nova.scheduler.weights": {
        "BaseHostWeigher": weights.BaseHostWeigher,
        "WeighedHost": weights.WeighedHost,
        "all_weighers": weights.all_weighers,
    },
}


def provide(paths: Iterable[str]) -> None:
    """Make the names importable if a configured class path is an operator's and nova is not there."""
    if all(path.startswith(_OURS) for path in paths) or _is_there():
        return
    for name, contents in NAMES.items():
        spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        vars(module).update({key: value for key, value in contents.items() if not key.startswith("_")})
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)


def _is_there() -> bool:
    return "nova" in sys.modules or importlib.util.find_spec("nova") is not None
