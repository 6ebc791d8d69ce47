"""Builders and strategies for hosts and guests."""

from hypothesis import strategies as st

from scheduler.numa.guest import GuestCell, GuestTopology
from scheduler.numa.topology import HostCell, HostTopology, Limits, NumaNetworks, PagePool


class Unset:
    """A versioned object of which only some fields are set."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __getattr__(self, name):
        raise (AttributeError if name.startswith("__") else NotImplementedError)(name)


def host_cell(number=0, cpus=4, threads=1, **changes):
    """``cpus`` dedicated CPUs in cores of ``threads``; 4 GiB of small pages and 2 GiB in 2 MiB pages."""
    ids = range(number * 100, number * 100 + cpus)
    members = {
        "pcpuset": frozenset(ids),
        "memory": 6144,
        "siblings": tuple(frozenset(ids[at : at + threads]) for at in range(0, cpus, threads)),
        "pages": (PagePool(4, 1 << 20), PagePool(2048, 1024)),
        "network": NumaNetworks(),
        "socket": number,
    }
    return HostCell(number, **{**members, **changes})


def host(*cells):
    return HostTopology(tuple(cells))


def pinned(number=0, vcpus=2, memory=512, **changes):
    members = {"pcpuset": frozenset(range(number * 10, number * 10 + vcpus)), "cpu_policy": "dedicated"}
    return GuestCell(number, memory=memory, **{**members, **changes})


def floating(number=0, **changes):
    return GuestCell(number, cpuset=frozenset({number * 10, number * 10 + 1}), memory=512, **changes)


def guest(*cells, **changes):
    return GuestTopology(tuple(cells), **changes)


def far_apart():
    """A host and a guest that fits its last five of 16 cells only: many thousands of arrangements away."""
    tied = (*(NumaNetworks() for _ in range(11)), *(NumaNetworks(frozenset({name})) for name in "abcde"))
    crowd = host(*(host_cell(number, network=network) for number, network in enumerate(tied)))
    unlike = guest(*(pinned(number, memory=512 + 4 * number) for number in range(8)))
    return crowd, unlike, Limits(1.0, 1.0, NumaNetworks(frozenset("abcde")))


@st.composite
def host_cells(draw, number):
    threads = draw(st.sampled_from((1, 2)))
    cpus = draw(st.integers(1, 4)) * threads
    ids = list(range(number * 100, number * 100 + cpus))
    kind = draw(st.sampled_from(("dedicated", "legacy", "shared", "both")))
    dedicated = {"shared": 0, "both": cpus // 2}.get(kind, cpus)
    pcpuset = frozenset(ids[:dedicated])
    cpuset = {"legacy": pcpuset, "shared": frozenset(ids)}.get(kind, frozenset(ids[dedicated:]))
    taken = draw(st.sets(st.sampled_from(sorted(pcpuset)), max_size=2)) if pcpuset else set()
    pages = draw(st.sampled_from(((), (4,), (4, 2048), (4, 2048), (2048,), (4, 2048, 1 << 20))))
    return HostCell(
        number,
        cpuset,
        pcpuset,
        memory=draw(st.sampled_from((1024, 2048, 4096))),
        cpu_usage=draw(st.integers(0, 3)),
        memory_usage=draw(st.sampled_from((0, 512, 1024))),
        pinned=frozenset(taken),
        siblings=tuple(frozenset(ids[at : at + threads]) for at in range(0, cpus, threads)),
        pages=tuple(PagePool(size, *draw(st.sampled_from(_FILLED[size]))) for size in pages),
        network=NumaNetworks(draw(st.sampled_from((frozenset(), frozenset({"a"}), frozenset({"a", "b"}))))),
        socket=draw(st.sampled_from((None, 0, 1))),
    )


_FILLED = {
    4: ((262144, 0), (524288, 200000), (1048576, 0)),
    2048: ((512, 256), (1024, 0)),
    1 << 20: ((1, 0), (2, 0), (2, 2)),
}


@st.composite
def hosts(draw, least=1, most=4):
    return HostTopology(tuple(draw(host_cells(number)) for number in range(draw(st.integers(least, most)))))


@st.composite
def guests(draw, most=3, alike=False):
    policy = draw(st.sampled_from((None, "dedicated", "mixed")))
    thread_policy = draw(st.sampled_from((None, "prefer", "require", "isolate"))) if policy else None
    pagesizes = st.just(None) if alike else st.sampled_from((None, None, -1, -2, -3, 4, 2048))
    sizes = st.tuples(st.integers(1, 2), st.sampled_from((256, 256, 512, 1024, 2048)))
    pagesize, size = draw(pagesizes), draw(sizes)
    cells = []
    for number in range(draw(st.integers(1, most))):
        vcpus, memory = size if alike else draw(sizes)
        ids = range(number * 10, number * 10 + vcpus)
        shared = {None: vcpus, "dedicated": 0, "mixed": 1}[policy]
        cpuset, pcpuset = frozenset(ids[:shared]), frozenset(ids[shared:])
        cells.append(GuestCell(number, cpuset, pcpuset, memory, pagesize, policy, thread_policy))
    return GuestTopology(tuple(cells), draw(st.booleans()) if policy and not alike else False)


def limits():
    network = st.sampled_from(
        (None, NumaNetworks(frozenset({"a"})), NumaNetworks(frozenset({"a", "b", "c"}), tunneled=True))
    )
    return st.one_of(
        st.none(), st.builds(Limits, st.sampled_from((1.0, 4.0)), st.sampled_from((1.0, 1.5)), network)
    )
