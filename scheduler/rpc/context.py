"""The request context, as it is sent with each message (spec: wire-and-config 2.2)."""

from collections.abc import Mapping
import copy
import datetime as dt
from typing import TYPE_CHECKING, Any, Self

from oslo_context import context

from scheduler.logs import sanitize

if TYPE_CHECKING:
    from scheduler.rpc.calls import Call

#: Types that a key may have besides null. A value of another type is read as null.
_KEYS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(
        "auth_token domain global_request_id project_domain project_id project_name quota_class "
        "read_deleted remote_address request_id resource_uuid system_scope timestamp user_domain user_id "
        "user_name".split(),
        (str,),
    ),
    **dict.fromkeys(("is_admin", "read_only", "show_deleted", "is_admin_project"), (bool, int)),
    **dict.fromkeys(("roles", "service_catalog"), (list, tuple)),
}

#: Characters of an id or a name. Keystone's have at most 255; a longer header would be refused by Placement.
_LONGEST = 255

_OURS = ("user_name", "project_name", "read_deleted", "remote_address", "timestamp", "quota_class")


#: Sent to other services as the id of the request.
_IN_HEADERS = {"request_id", "global_request_id"}


class RequestContext(context.RequestContext):
    """A request's context: ``request_id``, ``user_id``, ``project_id``, ``auth_token``, ``roles`` and others.

    ``global_id`` is the id to send to other services.

    Attributes:
        call: The call that is being answered; None outside of a server.
    """

    call: "Call | None" = None

    def __init__(
        self,
        *,
        read_deleted: str | None = None,
        remote_address: str | None = None,
        timestamp: str | None = None,
        quota_class: str | None = None,
        service_catalog: list[object] | tuple[object, ...] | None = None,
        overwrite: bool = False,
        **values: Any,
    ) -> None:
        super().__init__(overwrite=overwrite, **values)
        self.read_deleted = read_deleted or "no"
        self.remote_address = remote_address
        self.timestamp = timestamp or _now()
        self.quota_class = quota_class
        self.service_catalog = list(service_catalog or ())

    def elevated(self) -> Self:
        """Return a copy with an administrator's rights, for claims and database reads."""
        copied = copy.copy(self)
        copied.is_admin = True
        copied.roles = [*self.roles, *({"admin"} - set(self.roles))]
        return copied

    def redacted_copy(self, **kwargs: object) -> Self:
        """Return a copy for notifications, without the credentials and the address of the user."""
        copied = copy.copy(self)
        copied.auth_token = copied.remote_address = copied.service_token = None
        copied.service_catalog = []
        copied.timestamp = _now()
        return copied

    def to_dict(self) -> dict[str, object]:
        """Return the keys that are sent."""
        values = super().to_dict()
        values |= {name: getattr(self, name) for name in _OURS}
        return values | {"user_id": self.user_id, "service_catalog": self.service_catalog}

    def get_logging_values(self) -> dict[str, object]:
        """Return the values that a log format may use."""
        values = super().get_logging_values()
        del values["service_catalog"]
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, object], **kwargs: Any) -> Self:
        """Return the context of ``values``. No key is needed; unknown keys and wrong types are ignored.

        Texts go into each line of the log, and the ids of the request into headers of HTTP: so control
        characters are escaped, and long texts are cut.
        """
        known = {
            key: _clean(key, value) if isinstance(value, str) else value
            for key, kinds in _KEYS.items()
            if isinstance(value := values.get(key), kinds)
        }
        # the newer name wins; "user" and "tenant" are what older libraries sent
        known["user"] = known.pop("user_id", None) or _text(values, "user")
        known["project_id"] = known.get("project_id") or _text(values, "project", "tenant")
        known["is_admin"] = bool(known.get("is_admin"))
        extra = {name: known.get(name) for name in _OURS}
        return super().from_dict(known, service_catalog=known.get("service_catalog"), **extra, **kwargs)


def _text(values: Mapping[str, object], *keys: str) -> str | None:
    return next((_clean(key, value) for key in keys if isinstance(value := values.get(key), str)), None)


def _clean(key: str, value: str) -> str:
    if key == "auth_token":
        return value
    text = sanitize(value[:_LONGEST])[:_LONGEST]
    if key in _IN_HEADERS:
        text = text.encode("ascii", "backslashreplace").decode()[:_LONGEST].strip()
    return text


def _now() -> str:
    return dt.datetime.now(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
