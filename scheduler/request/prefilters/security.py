"""Pre-filters on what guards a guest's secrets: ephemeral encryption, virtual TPMs.

Spec: filters-and-weighers 4.
"""

from oslo_log import log as logging

from scheduler import errors
from scheduler.request.features import vtpm_of
from scheduler.request.prefilters.changes import require_root
from scheduler.request.prefilters.services import PrefilterServices
from scheduler.request.wishes import Wishes

LOG = logging.getLogger(__name__)

_FORMATS = frozenset({"plain", "luks", "luksv2"})
_TPM_SECURITY = {
    level: f"COMPUTE_SECURITY_TPM_SECRET_SECURITY_{level.upper()}" for level in ("user", "host", "deployment")
}


def ephemeral_encryption_filter(spec, _context, _services: PrefilterServices) -> bool:
    """``hw:ephemeral_encryption``, ``hw:ephemeral_encryption_format`` and their image properties (4.12).

    :raises FlavorImageConflict: flavor and image differ.
    :raises InvalidSetting: the format does not exist.
    """
    wishes = Wishes(spec)
    if not wishes.agreed_flag("hw:ephemeral_encryption", "hw_ephemeral_encryption"):
        return False
    require_root(spec, "COMPUTE_EPHEMERAL_ENCRYPTION")
    wanted = wishes.agreed_choice(
        "hw:ephemeral_encryption_format", "hw_ephemeral_encryption_format", _FORMATS
    )
    if wanted:
        require_root(spec, f"COMPUTE_EPHEMERAL_ENCRYPTION_{wanted.upper()}")
    return True


def tpm_secret_security_filter(spec, _context, _services: PrefilterServices) -> bool:
    """``hw:tpm_secret_security`` (``user``, ``host``, ``deployment``), if a vTPM is wanted (4.14).

    :raises RequestFilterFailed: the value is another one.
    """
    wishes = Wishes(spec)
    if vtpm_of(wishes) is None:
        return False
    level = wishes.extra_specs.get("hw:tpm_secret_security") or "user"
    trait = _TPM_SECURITY.get(level)
    if trait is None:
        LOG.warning("hw:tpm_secret_security=%s of the flavor is none of %s", level, ", ".join(_TPM_SECURITY))
        raise errors.RequestFilterFailed(f"Unknown TPM secret security {level!r}")
    require_root(spec, trait)
    return True
