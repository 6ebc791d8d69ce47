"""What was counted, for tests."""


def counted(counters):
    """{(name of a sample, the values of its labels): its value}, of those that are not 0."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in counters.registry.collect()
        for sample in family.samples
        if sample.value
    }
