"""Who asks, as it travels with each message (spec: wire-and-config 2.2)."""

import copy
import datetime as dt

from oslo_context import context

#: types that a key may have beside null; anything else is taken for null
_TEXT = (str,)
_FLAG = (bool, int)
_KEYS = {
    "auth_token": _TEXT,
    "domain": _TEXT,
    "global_request_id": _TEXT,
    "project_domain": _TEXT,
    "project_id": _TEXT,
    "project_name": _TEXT,
    "quota_class": _TEXT,
    "read_deleted": _TEXT,
    "remote_address": _TEXT,
    "request_id": _TEXT,
    "resource_uuid": _TEXT,
    "system_scope": _TEXT,
    "timestamp": _TEXT,
    "user_domain": _TEXT,
    "user_id": _TEXT,
    "user_name": _TEXT,
    "is_admin": _FLAG,
    "read_only": _FLAG,
    "show_deleted": _FLAG,
    "is_admin_project": _FLAG,
    "roles": (list, tuple),
    "service_catalog": (list, tuple),
}
_OURS = ("user_name", "project_name", "read_deleted", "remote_address", "timestamp", "quota_class")


class RequestContext(context.RequestContext):
    """A request's context: ``request_id``, ``user_id``, ``project_id``, ``auth_token``, ``roles`` ...

    ``global_id`` is the id to pass on to other services.
    """

    def __init__(
        self,
        *,
        read_deleted=None,
        remote_address=None,
        timestamp=None,
        quota_class=None,
        service_catalog=None,
        overwrite=False,
        **values,
    ):
        super().__init__(overwrite=overwrite, **values)
        self.read_deleted = read_deleted or "no"
        self.remote_address = remote_address
        self.timestamp = timestamp or _now()
        self.quota_class = quota_class
        self.service_catalog = list(service_catalog or ())

    def elevated(self):
        """A copy with an administrator's rights, for claims and database reads."""
        copied = copy.copy(self)
        copied.is_admin = True
        copied.roles = [*self.roles, *({"admin"} - set(self.roles))]
        return copied

    def redacted_copy(self, **kwargs):
        """A copy for notifications: who asked, but nothing that would let others act in their name."""
        copied = copy.copy(self)
        copied.auth_token = copied.remote_address = copied.service_token = None
        copied.service_catalog = []
        copied.timestamp = _now()
        return copied

    def to_dict(self):
        """The keys that travel."""
        values = super().to_dict()
        values |= {name: getattr(self, name) for name in _OURS}
        return values | {"user_id": self.user_id, "service_catalog": self.service_catalog}

    def get_logging_values(self):
        """What a log format may use."""
        values = super().get_logging_values()
        del values["service_catalog"]
        return values

    @classmethod
    def from_dict(cls, values, **kwargs):
        """The context in ``values``; unknown keys, missing ones and values of a wrong type do no harm."""
        known = {key: values.get(key) for key, kinds in _KEYS.items() if isinstance(values.get(key), kinds)}
        # the newer name wins; "user" and "tenant" are what older libraries sent
        known["user"] = known.pop("user_id", None) or _text(values, "user")
        known["project_id"] = known.get("project_id") or _text(values, "project", "tenant")
        known["is_admin"] = bool(known.get("is_admin"))
        extra = {name: known.get(name) for name in _OURS}
        return super().from_dict(known, service_catalog=known.get("service_catalog"), **extra, **kwargs)


def _text(values, *keys):
    return next((values[key] for key in keys if isinstance(values.get(key), str)), None)


def _now():
    return dt.datetime.now(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
