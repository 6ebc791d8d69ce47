"""What an instance is made of: its flavor and its image (spec: wire-and-config 3.5, 3.6)."""

from scheduler.objects import base, fields
from scheduler.objects.image_props import ImageMetaProps

_NULL_MEANS = {
    **dict.fromkeys(("name", "checksum", "owner", "container_format", "disk_format"), ""),
    **dict.fromkeys(("size", "virtual_size"), 0),
}


@base.register
class ImageMeta(base.WireObject):
    """An image; rules read its ``properties``."""

    VERSION = "1.8"
    fields = {
        "id": fields.uuid(),
        **fields.each("name status visibility checksum owner direct_url", fields.text()),
        **fields.each("container_format disk_format", fields.text()),
        **fields.each("size virtual_size min_ram min_disk", fields.integer()),
        "protected": fields.flexible_boolean(),
        **base.TIMESTAMPS,
        "tags": fields.list_of(fields.text()),
        "properties": fields.nested("ImageMetaProps"),
    }
    lazy_defaults = {"properties": ImageMetaProps}

    @classmethod
    def from_dict(cls, image_meta):
        """Return the image for a plain dict of a legacy caller; null is an empty image.

        Raises:
            InvalidRequest: A value does not suit its field.
        """
        given = dict(image_meta or {})
        props = given.get("properties")
        given["properties"] = (
            props if isinstance(props, ImageMetaProps) else ImageMetaProps.from_dict(props or {})
        )
        image = cls()
        for name in filter(given.__contains__, cls.fields):
            value = given[name]
            try:
                setattr(image, name, _NULL_MEANS.get(name) if value is None else value)
            except (ValueError, TypeError) as error:
                raise base.InvalidField(f"{cls.__name__}.{name}", error) from error
        return image

    def to_dict(self):
        """Return the set fields as a plain dict, with the properties as a dict in it."""
        plain = dict(self.set_fields())
        if "properties" in plain:
            plain["properties"] = plain["properties"].to_dict()
        return plain


@base.register
class Flavor(base.DictCompat, base.WireObject):
    """A flavor; ``memory_mb`` and ``swap`` in MiB, disks in GiB."""

    VERSION = "1.2"
    fields = {
        **fields.each("id memory_mb vcpus root_gb ephemeral_gb swap", fields.integer()),
        "flavorid": fields.text(),
        "name": fields.text(nullable=True),
        "rxtx_factor": fields.number(nullable=True, default=1.0),
        "vcpu_weight": fields.integer(nullable=True),
        "disabled": fields.boolean(),
        "is_public": fields.boolean(),
        "extra_specs": fields.dict_of(fields.text()),
        "projects": fields.list_of(fields.text()),
        "description": fields.text(nullable=True),
        **base.PERSISTENT,
    }
    lazy_defaults = {"extra_specs": dict}
