"""Plans as shell scripts for the openstack client."""

import shlex

from scheduler.operators.plan.movable import COLD, EVACUATE, LIVE
from scheduler.operators.plan.moves import Document

#: The first version of the API with a target host for cold migrations. Older clients choose 2.1 by default.
MICROVERSION = "2.56"

#: ``--wait`` also ends with status 0 when a migration has failed, so ``set -e`` does not see that.
HEADER = f"""\
export OS_COMPUTE_API_VERSION={MICROVERSION}
set -e
check_host() {{
    tries=${{3:-1}}
    while
        host=$(openstack server show -f value -c OS-EXT-SRV-ATTR:host "$1")
        [ "$host" != "$2" ]
    do
        tries=$((tries - 1))
        if [ "$tries" -lt 1 ]; then
            echo "Stopped: instance $1 is on host ${{host:-unknown}}, the plan says $2" >&2
            exit 1
        fi
        sleep 2
    done
}}"""

#: An evacuated instance is active on its old host for some seconds: nova-compute sets the host last, when no
#: other work on the resources of the host is going on.
TRIES_AFTER_EVACUATION = 30

_VERBS = {LIVE: "migrate --live-migration", COLD: "migrate", EVACUATE: "evacuate"}


def commands(plan: Document) -> list[str]:
    """Return the lines of a shell script that carries out the moves of a plan; none if there is no move.

    The script stops at the first command that fails, and at the first instance that is on another host than
    planned after its move. A cold migration has to be confirmed before the next move.
    """
    lines = HEADER.splitlines() if plan["moves"] else []
    for move in plan["moves"]:
        instance, host = shlex.quote(move["instance"]), shlex.quote(move["to"])
        if move.get("reset_state"):
            lines.append(f"openstack server set --state error {instance}")
        lines.append(f"openstack server {_VERBS[move['way']]} --host {host} --wait {instance}")
        tries = f" {TRIES_AFTER_EVACUATION}" if move["way"] == EVACUATE else ""
        lines.append(f"check_host {instance} {host}{tries}")
        if move["way"] == COLD:
            lines.append(f"openstack server migration confirm {instance}")
    return lines
