"""[notifications]: which form notifications take (spec: wire-and-config 5.1)."""

from oslo_config import cfg

GROUP = "notifications"

OPTS = [
    cfg.StrOpt(
        "notification_format",
        default="unversioned",
        choices=["both", "versioned", "unversioned"],
        deprecated_group="DEFAULT",
        help="Form of the notifications sent at the start and end of a request. None are sent at all unless "
        "[oslo_messaging_notifications]/driver is set.",
    ),
    cfg.ListOpt(
        "versioned_notifications_topics",
        default=["versioned_notifications"],
        help="Topics on which versioned notifications are published.",
    ),
]
