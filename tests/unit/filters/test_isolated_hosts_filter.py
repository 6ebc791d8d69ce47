"""IsolatedHostsFilter (spec: filters-and-weighers 2.6)."""

import pytest

from scheduler.filters.named_hosts_filters import IsolatedHostsFilter
from tests.builders import make_host
from tests.unit.filters.asking import ask, make_image, make_request, why

NO_ID = make_image()


@pytest.mark.parametrize(
    ("row", "images", "hosts", "restrict", "image", "host", "passes"),
    [
        (1, ["I"], ["H"], True, "I", "H", True),
        (2, ["I"], ["H"], True, "I", "other", False),
        (3, ["I"], ["H"], True, "other", "H", False),
        (4, ["I"], ["H"], True, "other", "other", True),
        (5, ["I"], ["H"], False, "I", "H", True),
        (6, ["I"], ["H"], False, "I", "other", False),
        (7, ["I"], ["H"], False, "other", "H", True),
        (8, ["I"], ["H"], False, "other", "other", True),
        (9, [], [], True, "any", "any", True),
        (10, [], ["H"], True, "any", "H", False),
        (11, [], ["H"], True, "any", "other", True),
        (12, [], ["H"], False, "any", "H", True),
        (13, ["I"], [], True, "I", "any", False),
        (14, ["I"], [], True, "other", "any", True),
        ("15 no image", ["I"], ["H"], True, None, "H", False),
        ("15 no id", ["I"], ["H"], True, NO_ID, "H", False),
        ("16 no image", ["I"], ["H"], True, None, "other", True),
        ("16 no id", ["I"], ["H"], True, NO_ID, "other", True),
        (17, ["I"], ["H"], True, "other", "h", True),
    ],
)
def test_table(row, images, hosts, restrict, image, host, passes):
    request = make_request(image=make_image(id=image) if isinstance(image, str) else image)
    options = {
        "isolated_images": images,
        "isolated_hosts": hosts,
        "restrict_isolated_hosts_to_isolated_images": restrict,
    }
    assert ask(IsolatedHostsFilter, make_host(host), request, **options) is passes


def test_reasons():
    options = {"isolated_images": ["I"], "isolated_hosts": ["H"]}
    isolated, other = (make_request(image=make_image(id=name)) for name in ("I", "O"))
    assert why(IsolatedHostsFilter, make_host("x"), isolated, **options) == "image I isolated, host is not"
    assert why(IsolatedHostsFilter, make_host("H"), other, **options) == "isolated host, image O not isolated"


def test_runs_for_rebuilds():
    assert IsolatedHostsFilter.RUN_ON_REBUILD
