"""Puts instances of alike images together (spec: filters-and-weighers 3.12)."""

import numpy as np
from oslo_config import cfg

from scheduler.conf.option_pairs import parse_options
from scheduler.hosts.view import HostView
from scheduler.objects import ImageMetaProps
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.base import HostWeigher, Scorer

Properties = set[tuple[str, str]]
"""(name, text of the value)"""


class ImagePropertiesWeigher(HostWeigher):
    """Raw weight: how many image properties of the host's instances equal one of the request's image.

    ``image_props_weight_multiplier`` (0.0: off, whatever aggregates say); ``image_props_weight_setting``
    gives single properties a ratio, and all others none. The instances' properties are read from the cells.
    """

    option = "image_props_weight_multiplier"
    needs = frozenset({"image_properties"})

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        setting = conf.filter_scheduler.image_props_weight_setting
        self.settings = dict(parse_options(setting, "=", float, "image_props_weight_setting"))

    def prepare(self, request: SchedulingRequest) -> Scorer | None:
        if self.configured_multiplier() == 0.0:
            return None
        image = request.spec.image
        wanted = texts(image.properties) if image is not None and "properties" in image else set()
        return Scorer(lambda hosts: self._matches(wanted, hosts)) if wanted else None

    def _matches(self, wanted: Properties, hosts: HostView) -> np.ndarray:
        held = hosts.image_properties()
        # few images are distinct, and those that are alike are one object
        distinct = {id(image): image for images in held for image in images}
        # The stored texts are read as the types that images have.
        typed = {identity: ImageMetaProps.from_dict(image) for identity, image in distinct.items()}
        matches = {
            identity: sum(self._ratio(name) for name, _ in wanted & texts(image))
            for identity, image in typed.items()
        }
        return np.array([sum(map(matches.__getitem__, map(id, images))) for images in held])

    def _ratio(self, name: str) -> float:
        return self.settings.get(name, 0.0) if self.settings else 1.0


def texts(properties: ImageMetaProps) -> Properties:
    return {(name, str(value)) for name, value in properties.to_dict().items()}
