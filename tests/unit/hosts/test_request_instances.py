"""What a request needs of the instances, loaded before its rules are run."""

import pytest

from scheduler.hosts.request_instances import Needs
from tests.builders import Instances, make_host, make_view


def view_and_source():
    hosts = [make_host("h1").holding("i1"), make_host("h2")]
    source = Instances(hosts)
    return make_view(hosts, instances=source), source


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (Needs(), Needs(), Needs()),
        (Needs(frozenset("a")), Needs(frozenset("b")), Needs(frozenset("ab"))),
        (Needs(image_properties=True), Needs(frozenset("a")), Needs(frozenset("a"), image_properties=True)),
    ],
    ids=["nothing", "instances of both", "instances and images"],
)
def test_needs_of_several_rules_are_joined(first, second, both):
    assert first | second == second | first == both


def test_without_needs_the_source_is_not_asked():
    view, source = view_and_source()
    view.load(Needs())
    assert source.asked == 0


def test_loaded_instances_are_counted_without_asking_again():
    view, source = view_and_source()
    view.load(Needs(frozenset({"i1", "i2"})))
    assert list(view.count_instances(["i1"])) == [1, 0]
    assert list(view.count_instances(["i1", "i2"])) == [1, 0]
    assert source.asked == 1


def test_loaded_image_properties_are_read_once():
    view, source = view_and_source()
    view.load(Needs(image_properties=True))
    assert [len(images) for images in view.image_properties()] == [1, 0]
    view.image_properties()
    assert source.asked == 1
