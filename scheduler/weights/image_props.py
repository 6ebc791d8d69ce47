"""Puts instances of alike images together (spec: filters-and-weighers 3.12)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.hosts.view import HostView
from scheduler.objects import ImageMetaProps
from scheduler.settings import parse_options
from scheduler.weights.base import HostWeigher


class ImagePropertiesWeigher(HostWeigher):
    """Raw weight: how many image properties of the host's instances equal one of the request's image.

    ``image_props_weight_multiplier`` (0.0: off, whatever aggregates say); ``image_props_weight_setting``
    gives single properties a ratio, and all others none. The instances' properties are read from the cells.
    """

    option = "image_props_weight_multiplier"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        setting = conf.filter_scheduler.image_props_weight_setting
        self.settings = dict(parse_options(setting, "=", float, "image_props_weight_setting"))

    def applies(self, request: Any) -> bool:
        return self.configured_multiplier() != 0.0 and bool(wanted_properties(request))

    def weigh(self, hosts: HostView, request: Any) -> np.ndarray:
        wanted, held = wanted_properties(request), hosts.image_properties()
        # few images are distinct, and those that are alike are one object
        distinct = {id(image): image for images in held for image in images}
        matches = {identity: self._matches(image, wanted) for identity, image in distinct.items()}
        return np.array([sum(map(matches.__getitem__, map(id, images))) for images in held], np.float64)

    def _matches(self, image: Mapping[str, str], wanted: set[tuple[str, str]]) -> float:
        return sum(self._ratio(name) for name, _ in wanted & typed(image))

    def _ratio(self, name: str) -> float:
        return self.settings.get(name, 0.0) if self.settings else 1.0


def wanted_properties(request: Any) -> set[tuple[str, str]]:
    """(name, text of the value) of the properties that the request's image sets."""
    image = request.image
    return texts(image.properties) if image is not None and "properties" in image else set()


def typed(stored: Mapping[str, str]) -> set[tuple[str, str]]:
    """As ``wanted_properties``, of an instance: its stored texts read as the types that images have."""
    return texts(ImageMetaProps.from_dict(dict(stored)))


def texts(properties: ImageMetaProps) -> set[tuple[str, str]]:
    return {(name, str(value)) for name, value in properties.to_dict().items()}
