"""Claims as a cell conductor makes and a compute removes them (spec: host-state-and-cells 7.3)."""

import json
import random
import time

from keystoneauth1 import exceptions as keystone
from keystoneauth1 import loading
from oslo_log import log as logging

from conductor_client import errors

LOG = logging.getLogger(__name__)

READ_VERSION = "1.28"

# Upper bounds, in seconds, of the random pause before each try; one that lost against another is repeated.
PAUSES = (0, 2, 4, 6)

# Seconds that an answer may take where [placement]/timeout does not say.
TIMEOUT = 60


def placement_adapter(conf):
    """A keystoneauth adapter by the options of ``[placement]``; an error status raises nothing."""
    auth = loading.load_auth_from_conf_options(conf, "placement")
    timeout = conf.placement.timeout or TIMEOUT
    session = loading.load_session_from_conf_options(conf, "placement", auth=auth, timeout=timeout)
    return loading.load_adapter_from_conf_options(conf, "placement", session=session, raise_exc=False)


class Allocations:
    """Claims and removals for instances.

    placement: a keystoneauth adapter that does not raise on an error status.
    sleep: what waits between the tries of a claim.
    """

    def __init__(self, placement, sleep=time.sleep):
        self._placement = placement
        self._sleep = sleep

    def claim(self, instance_uuid, selection, spec):
        """Claim the allocation that a Selection carries, by its own text and microversion.

        Returns whether the instance has it now; a Selection without one needs no claim. Raises
        errors.AllocationUpdateFailed if the instance's allocations changed under the claim.
        """
        wanted = json.loads(selection.allocation_request or "null")
        if not wanted:
            return True
        version = selection.allocation_request_version
        for pause in PAUSES:
            self._sleep(random.uniform(0, pause))
            answer = self._put(instance_uuid, wanted, version, spec)
            if not _lost_a_race(answer, instance_uuid):
                break
        if answer.status_code == 204:
            return True
        LOG.warning("Claim of %s for %s refused: %s", selection.service_host, instance_uuid, _detail(answer))
        return False

    def remove(self, instance_uuid):
        """Remove all that the instance holds, whatever its generation. Returns whether nothing is left."""
        try:
            answer = self._placement.delete(_path(instance_uuid))
        except keystone.ClientException as error:
            LOG.error("Allocations of instance %s are left behind: %s", instance_uuid, error)
            return False
        if answer.status_code not in (204, 404):
            LOG.error(
                "Allocations of instance %s are left behind: HTTP %s", instance_uuid, answer.status_code
            )
            return False
        return True

    def held(self, instance_uuid):
        """What the instance holds: the body of GET /allocations/{instance_uuid}."""
        return self._placement.get(_path(instance_uuid), microversion=READ_VERSION).json()

    def _put(self, instance_uuid, wanted, version, spec):
        held = self.held(instance_uuid)
        body = {**wanted, "project_id": spec.project_id, "user_id": spec.user_id, "consumer_generation": None}
        if held["allocations"]:
            body = _merged(body, held)
        return self._placement.put(_path(instance_uuid), json=body, microversion=version)


def _path(instance_uuid):
    return f"/allocations/{instance_uuid}"


def _merged(body, held):
    """What is held stays as it is, what is wanted on other providers comes on top."""
    kept = {provider: {"resources": value["resources"]} for provider, value in held["allocations"].items()}
    body = {key: value for key, value in body.items() if key != "mappings"}
    return {
        **body,
        "allocations": {**body["allocations"], **kept},
        "consumer_generation": held["consumer_generation"],
    }


def _lost_a_race(answer, instance_uuid):
    """Whether the answer is a conflict on a provider, after which the same claim may well succeed."""
    if answer.status_code != 409 or "placement.concurrent_update" not in answer.text:
        return False
    if "consumer generation conflict" in answer.text:
        raise errors.AllocationUpdateFailed(f"Instance {instance_uuid}: {_detail(answer)}")
    return True


def _detail(answer):
    try:
        return answer.json()["errors"][0]["detail"]
    except (ValueError, LookupError, TypeError):
        return answer.text[:200]
