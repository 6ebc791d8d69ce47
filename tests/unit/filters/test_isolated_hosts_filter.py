"""IsolatedHostsFilter (spec: filters-and-weighers 2.6); its verdicts are compared with nova's in tests/recorded."""

from scheduler.filters.named_hosts_filters import IsolatedHostsFilter
from tests.builders import make_host
from tests.unit.filters.asking import make_image, make_request, why


def test_reasons():
    options = {"isolated_images": ["I"], "isolated_hosts": ["H"]}
    isolated, other = (make_request(image=make_image(id=name)) for name in ("I", "O"))
    assert why(IsolatedHostsFilter, make_host("x"), isolated, **options) == "image I isolated, host is not"
    assert why(IsolatedHostsFilter, make_host("H"), other, **options) == "isolated host, image O not isolated"


def test_runs_for_rebuilds():
    assert IsolatedHostsFilter.RUN_ON_REBUILD
