"""Run by nova's own Python: nova's databases with three hosts, in two zones and failure domains.

published_cloud.py NOVA_CONF CELL EMPTY: the last two are as ``nova_databases`` has them.
"""

import json
import pathlib
import sys

import nova_databases


def main():
    config, hosts, empty = sys.argv[1:]
    cells = json.loads(pathlib.Path(hosts).read_text())
    manage = nova_databases.prepare(config)
    nova_databases.make_databases(manage, cells, pathlib.Path(empty))
    nova_databases.add_computes(cells)
    assert not manage.CellV2Commands().discover_hosts()
    add_aggregates()
    sys.stdout.write(json.dumps("done") + "\n")


def add_aggregates():
    from nova import context, objects

    for name, domain, hosts in (("first", "a", ("h1", "host2")), ("second", "b", ("h3",))):
        aggregate = objects.Aggregate(context.get_admin_context(), name=name)
        aggregate.metadata = {"failure_domain": domain, "availability_zone": f"az-{domain}"}
        aggregate.create()
        for host in hosts:
            aggregate.add_host(host)


if __name__ == "__main__":
    main()
