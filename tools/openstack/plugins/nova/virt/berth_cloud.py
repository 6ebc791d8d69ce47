"""nova's fake driver with what a restart, a snapshot and the tests of the API need besides."""

import io
import json
from pathlib import Path

from nova.compute import power_state
import nova.conf
from nova.image import glance
from nova.virt import fake
from nova.virt.node import get_local_node_uuid

CONF = nova.conf.CONF


class Driver(fake.FakeDriver):
    """A host of 32 CPUs and 64 GiB; its guests are names and power states, kept over a restart."""

    vcpus = 32
    memory_mb = 65536
    local_gb = 2000

    def init_host(self, host):
        super().init_host(host)
        self._file = Path(CONF.state_path, "guests.json")
        if self._file.exists():
            self.instances = {
                uuid: fake.FakeInstance(name, state, uuid)
                for uuid, (name, state) in json.loads(self._file.read_text()).items()
            }

    def get_nodenames_by_uuid(self, refresh=False):
        return {get_local_node_uuid(): self._host}

    def get_available_resource(self, nodename):
        return {**super().get_available_resource(nodename), "uuid": get_local_node_uuid()}

    def get_host_uptime(self):
        return " 12:00:00 up 1 day,  1:00,  1 user,  load average: 0.00, 0.00, 0.00"

    def get_console_output(self, context, instance):
        return "".join(f"line {number}\n" for number in range(20))

    def snapshot(self, context, instance, image_id, update_task_state):
        super().snapshot(context, instance, image_id, update_task_state)
        metadata = {"disk_format": "raw", "container_format": "bare"}
        glance.API().update(context, image_id, metadata, io.BytesIO(b"guest"), purge_props=False)

    def spawn(self, *args, **kwargs):
        super().spawn(*args, **kwargs)
        self._keep()

    def destroy(self, *args, **kwargs):
        super().destroy(*args, **kwargs)
        self._keep()

    def post_live_migration(self, context, instance, *args, **kwargs):
        super().post_live_migration(context, instance, *args, **kwargs)
        self.destroy(context, instance, None)  # the guest has left this host, and may come back

    def finish_revert_migration(self, *args, **kwargs):
        super().finish_revert_migration(*args, **kwargs)
        self._keep()

    def power_off(self, instance, timeout=0, retry_interval=0):
        self._become(instance, power_state.SHUTDOWN)

    def power_on(self, context, instance, *args, **kwargs):
        self._become(instance, power_state.RUNNING)

    def pause(self, instance):
        self._become(instance, power_state.PAUSED)

    def unpause(self, instance):
        self._become(instance, power_state.RUNNING)

    def suspend(self, context, instance):
        self._become(instance, power_state.SUSPENDED)

    def resume(self, context, instance, *args, **kwargs):
        self._become(instance, power_state.RUNNING)

    def soft_delete(self, instance):
        self._become(instance, power_state.SHUTDOWN)

    def restore(self, instance):
        self._become(instance, power_state.RUNNING)

    def _become(self, instance, state):
        super().get_info(instance)
        self.instances[instance.uuid].state = state
        self._keep()

    def _keep(self):
        guests = {uuid: (each.name, each.state) for uuid, each in self.instances.copy().items()}
        self._file.write_text(json.dumps(guests))
