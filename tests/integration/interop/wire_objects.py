"""Run by nova's own Python: nova's objects with random fields, and what nova reads of envelopes.

wire_objects.py make SEED COUNT   prints a list of {"method", "release", "args", "seen"}: arguments of casts
                                  and calls as nova's serializer makes them, and what nova itself reads there
wire_objects.py read              prints what nova reads of the arguments on standard input, a list of JSON
"""

import datetime as dt
import json
import logging
import random
import sys
import uuid

from nova import config, context, exception, objects
from nova.objects import base
from oslo_versionedobjects import base as ovo
from oslo_versionedobjects import fields

#: Versions of the objects of a request, as far as they differ from those of this nova.
RELEASES = {
    "27": {"RequestSpec": "1.14", "ImageMetaProps": "1.34", "Instance": "2.7"},
    "28": {"RequestSpec": "1.14", "ImageMetaProps": "1.34"},
    "29": {"ImageMetaProps": "1.37"},
    "30": {"ImageMetaProps": "1.38"},
    "31": {"ImageMetaProps": "1.39"},
    "32": {"ImageMetaProps": "1.42"},
    "33": {"ImageMetaProps": "1.42"},
    "34": {},
}
TEXTS = ["", "a", "0", "str\u00f6m", "true", "a,b", "x" * 300, "{}", " ", "\u65e5\u672c"]
#: Of an instance, what says nothing of networks: those have types of their own, which no scheduler reads.
INSTANCE = "host node image_ref system_metadata metadata flavor numa_topology created_at".split()
INTEGERS = [0, 1, -1, 7, 2**31 - 1, 2**62]
PREDICATES = [">=2.6,<4", "==1.0", "!=3.1.1", ">1"]


class Maker:
    """Objects with fields filled at random; ``share`` of the fields are set."""

    def __init__(self, seed, share):
        self.random = random.Random(seed)
        self.share = share

    def object(self, name, only=None, **given):
        kind = base.NovaObjectRegistry.obj_classes()[name][0]
        made = kind()
        for field_name in only or kind.fields:
            if self.random.random() < self.share and field_name not in given:
                given[field_name] = self.field(kind.fields[field_name])
        for field_name, value in given.items():
            setattr(made, field_name, value)
        return made

    def field(self, field):
        if field.nullable and self.random.random() < 0.2:
            return None
        return self.value(field._type)

    def value(self, kind):
        many = range(self.random.randrange(4))
        if isinstance(kind, fields.Object):
            return self.object(kind._obj_name)
        if isinstance(kind, fields.List):
            return [self.field(kind._element_type) for _ in many]
        if isinstance(kind, fields.Set):
            return {self.field(kind._element_type) for _ in many}
        if isinstance(kind, fields.Dict):
            return {str(self.random.randrange(100)): self.field(kind._element_type) for _ in many}
        return self.plain(kind)

    def plain(self, kind):
        """A value of the first type in the table that this one is of."""
        return next(make(kind) for known, make in self.makers() if isinstance(kind, known))

    def makers(self):
        choose = self.random.choice
        return [
            (fields.Enum, lambda kind: choose(list(kind._valid_values))),
            (fields.UUID, lambda _: str(uuid.UUID(int=self.random.getrandbits(128)))),
            (fields.VersionPredicate, lambda _: choose(PREDICATES)),
            (fields.IPAddress, lambda _: choose(["192.0.2.1", "2001:db8::1"])),
            (fields.Boolean, lambda _: choose([True, False])),
            (fields.DateTime, lambda _: self.moment()),
            (fields.Integer, lambda _: choose(INTEGERS)),
            (fields.Float, lambda _: choose([0.0, 1.5, -0.25, 1e6, 16.0])),
            (fields.String, lambda _: choose(TEXTS)),
        ]

    def moment(self):
        moment = dt.datetime.fromtimestamp(self.random.randrange(2**31), dt.UTC)
        return moment.replace(microsecond=self.random.randrange(10**6))


def seen(value):
    """What nova reads in a value: objects as their set fields, sets as sorted lists."""
    if isinstance(value, base.NovaObject):
        found = {name: seen(getattr(value, name)) for name in value.fields if value.obj_attr_is_set(name)}
        return {"name": value.obj_name(), "version": value.VERSION, "fields": found}
    if isinstance(value, dict):
        return {key: seen(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(seen, value))
    if isinstance(value, (list, tuple)):
        return [seen(item) for item in value]
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat()
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def request(maker, release):
    """A RequestSpec of a release. Values that came later cannot be said in it, so another is made then."""
    while True:
        spec = maker.object("RequestSpec")
        known = ovo.obj_tree_get_versions("RequestSpec") | RELEASES[release]
        try:
            return spec.obj_to_primitive(known["RequestSpec"], version_manifest=known)
        except exception.ObjectActionError:
            continue


def messages(seed, count):
    serializer = base.NovaObjectSerializer()
    for number in range(count):
        maker = Maker(f"{seed}-{number}", (0.15, 0.6, 0.9, 1.0, 0.0)[number % 5])
        release = list(RELEASES)[number % len(RELEASES)]
        yield "select_destinations", release, {"spec_obj": request(maker, release)}
        instance = maker.object("Instance", INSTANCE, uuid=str(uuid.uuid4()))
        aggregate = maker.object("Aggregate", id=number)
        casts = {
            "update_instance_info": {"instance_info": objects.InstanceList(objects=[instance])},
            "update_aggregates": {"aggregates": [aggregate]},
            "delete_aggregate": {"aggregate": aggregate},
        }
        for method, arguments in casts.items():
            yield method, "34", serializer.serialize_entity(None, arguments)


def read(admin, arguments):
    serializer = base.NovaObjectSerializer()
    return seen(serializer.deserialize_entity(admin, json.loads(json.dumps(arguments))))


def main():
    config.parse_args(["nova-conductor"], default_config_files=[])
    logging.disable(logging.WARNING)
    objects.register_all()
    admin = context.get_admin_context()
    if sys.argv[1] == "make":
        result = [
            {"method": method, "release": release, "args": arguments, "seen": read(admin, arguments)}
            for method, release, arguments in messages(sys.argv[2], int(sys.argv[3]))
        ]
    else:
        result = [read(admin, arguments) for arguments in json.load(sys.stdin)]
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
