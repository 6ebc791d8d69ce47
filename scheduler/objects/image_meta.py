"""The image that an instance is booted from (spec: wire-and-config 3.6, 3.12)."""

from scheduler.objects import base, fields
from scheduler.objects.image_props import ImageMetaProps

_NULL_MEANS = {
    **dict.fromkeys(("name", "checksum", "owner", "container_format", "disk_format"), ""),
    **dict.fromkeys(("size", "virtual_size"), 0),
}
_IMAGE_ATTRIBUTES = ("min_ram", "min_disk", "disk_format", "container_format")
_NOT_PROPERTIES = frozenset(
    {"mappings", "block_device_mapping", "img_mappings", "img_block_device_mapping", *_IMAGE_ATTRIBUTES}
)
_PREFIX = "image_"


@base.register
class ImageMeta(base.WireObject):
    """An image; rules read its ``properties``."""

    VERSION = "1.8"
    fields = {
        "id": fields.uuid(),
        "name": fields.text(),
        "status": fields.text(),
        "visibility": fields.text(),
        "protected": fields.flexible_boolean(),
        "checksum": fields.text(),
        "owner": fields.text(),
        "size": fields.integer(),
        "virtual_size": fields.integer(),
        "container_format": fields.text(),
        "disk_format": fields.text(),
        "created_at": fields.moment(nullable=True),
        "updated_at": fields.moment(nullable=True),
        "tags": fields.list_of(fields.text()),
        "direct_url": fields.text(),
        "min_ram": fields.integer(),
        "min_disk": fields.integer(),
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
        return _build(cls, given)

    def to_dict(self):
        """Return the set fields as a plain dict, with the properties as a dict in it."""
        plain = dict(self.set_fields())
        if "properties" in plain:
            plain["properties"] = plain["properties"].to_dict()
        return plain

    @classmethod
    def from_system_metadata(cls, system_metadata):
        """Return the image of a running instance, which nova keeps in ``system_metadata``."""
        known = {k.removeprefix(_PREFIX): v for k, v in (system_metadata or {}).items() if v is not None}
        given = {name: known[name] for name in _IMAGE_ATTRIBUTES if name in known}
        props = {name: value for name, value in known.items() if name not in _NOT_PROPERTIES}
        return _build(cls, {**given, "properties": ImageMetaProps.from_dict(props)})


def _build(cls, given):
    image = cls()
    for name, value in given.items():
        if name not in cls.fields:
            continue
        try:
            setattr(image, name, _NULL_MEANS.get(name) if value is None else value)
        except (ValueError, TypeError) as error:
            raise base.InvalidField(f"{cls.__name__}.{name}", error) from error
    return image
