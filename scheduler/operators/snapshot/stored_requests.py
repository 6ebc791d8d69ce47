"""The requests of instances; of equal ones one is kept."""

from typing import Any

import orjson

from scheduler import objects
from scheduler.errors import InvalidRequest
from scheduler.objects.base import DATA
from scheduler.request.flavor_and_image import FlavorAndImage
from scheduler.request.reading import read

#: In place of the number of a request that is not stored or cannot be read.
MISSING = -2

#: The service version from which computes migrate a virtual TPM live whose secret the host has.
MOVES_VTPM = 72

#: What differs between instances of one request.
OWN = ("instance_uuid", "num_instances", "id", "instance_group")

#: Hints that name other instances, which may move too.
OF_INSTANCES = ("same_host", "different_host")


class StoredRequests:
    """Distinct requests by number. Most of 100,000 stored texts differ in the UUID of the instance only."""

    def __init__(self) -> None:
        self._specs: list[Any] = []
        self._forced: set[int] = set()
        self._of_content: dict[bytes, int] = {}
        self._of_text: dict[int, tuple[int, str | None]] = {}

    def __len__(self) -> int:
        return len(self._specs)

    def add(self, uuid: str, text: str) -> tuple[int, str | None]:
        """Return the number of an instance's request, or ``MISSING``, and the UUID of its server group."""
        key = hash(text.replace(uuid, ""))
        known = self._of_text.get(key)
        if known is None:
            known = self._of_text[key] = self._add(text)
        return known

    def _add(self, text: str) -> tuple[int, str | None]:
        try:
            primitive = orjson.loads(text)
            spec = objects.RequestSpec.obj_from_primitive(primitive)
            data = primitive[DATA]
            content = orjson.dumps({name: data[name] for name in sorted(data.keys() - set(OWN))})
            group = read(read(spec, "instance_group"), "uuid")
        except (ValueError, InvalidRequest, KeyError, TypeError):
            return MISSING, None
        number = self._of_content.setdefault(content, len(self._specs))
        if number == len(self._specs):
            if read(spec, "force_hosts") or read(spec, "force_nodes"):
                self._forced.add(number)
            self._specs.append(_to_move(spec))
        return number, group

    def spec(self, number: int) -> objects.RequestSpec:
        return self._specs[number].obj_clone()

    def flavor(self, number: int) -> objects.Flavor:
        return self._specs[number].flavor

    def is_forced(self, number: int) -> bool:
        """Whether the user chose the host. A move has no such host."""
        return number in self._forced

    def names_instances(self, number: int) -> bool:
        return any(hint in read(self._specs[number], "scheduler_hints", {}) for hint in OF_INSTANCES)

    def has_devices(self, number: int) -> bool:
        return bool(read(read(self._specs[number], "pci_requests"), "requests", ()))

    def cold_only(self, number: int, compute_version: int) -> str:
        """Return for what nova does not migrate the instances of a request live; "" if it does.

        Args:
            compute_version: The lowest service version of any compute.
        """
        spec = self._specs[number]
        wanted = read(read(spec, "pci_requests"), "requests", ())
        if not all(one.source == one.NEUTRON_PORT or one.is_live_migratable() for one in wanted):
            return "PCI devices"
        wishes = FlavorAndImage(spec)
        if wishes.flag("hw:mem_encryption") or wishes.image("hw_mem_encryption"):
            return "encrypted memory"
        security = wishes.extra_specs.get("hw:tpm_secret_security")
        if self.has_vtpm(number) and (security != "host" or compute_version < MOVES_VTPM):
            return "virtual TPM"
        return ""

    def has_vtpm(self, number: int) -> bool:
        """Whether the instances of a request have a virtual TPM, which nova evacuates in no state."""
        wishes = FlavorAndImage(self._specs[number])
        return bool(wishes.extra_specs.get("hw:tpm_version") or wishes.image("hw_tpm_version"))

    def boots_from_volume(self, number: int) -> bool:
        return bool(read(self._specs[number], "is_bfv"))

    def is_pinned(self, number: int) -> bool:
        return read(self._specs[number], "numa_topology") is not None


def _to_move(spec: Any) -> Any:
    """Return a request as a conductor sends it for a move, without forced and ignored hosts."""
    spec.force_hosts = spec.force_nodes = spec.ignore_hosts = spec.retry = spec.requested_destination = None
    spec.requested_resources = []
    spec.num_instances = 1
    return spec
