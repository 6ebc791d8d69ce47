from scheduler.health import catalogue
from scheduler.health.counters import Counters


def value(counters, name, **labels):
    return counters.registry.get_sample_value(name, labels)


def test_counts_are_added_for_each_combination_of_labels():
    counters = Counters()
    for amount, name in [(2, "A"), (3, "B"), (4, "A")]:
        counters.add(catalogue.FILTERED, amount, name)
    counters.add(catalogue.REFUSED)
    assert value(counters, "berth_hosts_filtered_total", filter="A") == 6
    assert value(counters, "berth_hosts_filtered_total", filter="B") == 3
    assert value(counters, "berth_messages_refused_total") == 1


def test_a_value_is_in_all_buckets_above_it():
    counters = Counters()
    for tries in (1, 2, 100):
        counters.observe(catalogue.CLAIM_TRIES, tries)
    buckets = {
        le: value(counters, "berth_claim_tries_bucket", le=le) for le in ("1.0", "2.0", "10.0", "+Inf")
    }
    assert buckets == {"1.0": 1, "2.0": 2, "10.0": 2, "+Inf": 3}
    assert value(counters, "berth_claim_tries_sum") == 103


def test_known_values_of_labels_are_0_from_the_beginning_on():
    counters = Counters()
    for metric in catalogue.METRICS:
        if metric.kind == "counter":
            for one in metric.values:
                assert value(counters, metric.series, **{metric.labels[0]: one}) == 0
