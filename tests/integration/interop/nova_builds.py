"""Run by nova's own Python: builds instances through nova's conductor code, and reports them as their computes do.

nova_builds.py NOVA_CONF NOVA_CONF COUNT [FILE] prints for each request its id, its instances and their hosts, as JSON on the
last line. Each request but the first waits until FILE has the id of the one before. Of ten requests one fits nowhere, one is for three instances, and one is for a member of a server group.
"""

import json
import pathlib
import sys
import time

from nova_conductor import PROJECT, USER, Cloud, prepare


class Builds:
    """Requests, one after the other."""

    def __init__(self):
        from nova import context

        self._contexts = context
        self.cloud = Cloud()
        self.huge = self.cloud.flavor("huge", 4096, 1024)
        self.group = self.cloud.group("anti-affinity")

    def build(self, number):
        """Send a request; return what became of it."""
        cloud = self.cloud
        cloud.context = self._contexts.RequestContext(USER, PROJECT, is_admin=True, roles=["member"])
        before = len(cloud.computes.sent)
        kinds = {3: {"flavor": self.huge}, 5: {"count": 3}, 7: {"group": self.group}}
        instances = cloud.build(**kinds.get(number % 10, {"flavor": (cloud.small, cloud.large)[number % 2]}))
        hosts = [self._report(sent) for _, sent in cloud.computes.sent[before:]]
        return {"request": cloud.context.request_id, "instances": instances, "hosts": hosts}

    def _report(self, sent):
        """Write what a compute writes when it builds an instance, and return its host."""
        cloud, instance = self.cloud, sent["instance"]
        cloud.started(instance.uuid, sent["host"], sent["node"])
        with cloud.in_cell(instance.uuid) as context:
            node = cloud.objects.ComputeNode.get_by_host_and_nodename(context, sent["host"], sent["node"])
            node.memory_mb_used += instance.flavor.memory_mb
            node.free_ram_mb -= instance.flavor.memory_mb
            node.local_gb_used += instance.flavor.root_gb
            node.free_disk_gb -= instance.flavor.root_gb
            node.vcpus_used += instance.flavor.vcpus
            node.running_vms += 1
            node.save()
        return sent["host"]


def main():
    *config_files, count = [word for word in sys.argv[1:] if not word.endswith(".jsonl")]
    seen = [pathlib.Path(word) for word in sys.argv[1:] if word.endswith(".jsonl")]
    prepare(*config_files)
    builds, built = Builds(), []
    for number in range(int(count)):
        built.append(builds.build(number))
        while any(built[-1]["request"] not in path.read_text() for path in seen):
            time.sleep(0.05)
    sys.stdout.write(json.dumps(built) + "\n")


if __name__ == "__main__":
    main()
