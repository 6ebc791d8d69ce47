"""The extra specs of the flavor and the properties of the image of one request, side by side."""

from oslo_utils.strutils import bool_from_string

from scheduler import errors
from scheduler.request.reading import read


class FlavorAndImage:
    """Extra specs and image properties of a RequestSpec. A null image counts as one without properties."""

    def __init__(self, spec) -> None:
        self.flavor = spec.flavor
        self.extra_specs = read(spec.flavor, "extra_specs", {})
        self._properties = read(read(spec, "image"), "properties")

    def image(self, name: str):
        return read(self._properties, name)

    def flag(self, key: str) -> bool | None:
        """Return the extra spec ``key`` as a boolean (unknown words are false); None if it is absent."""
        text = self.extra_specs.get(key)
        return None if text is None else bool_from_string(text)

    def choice(self, key: str, choices: frozenset[str]) -> str | None:
        """Return the extra spec ``key``, one of ``choices``, or None.

        Raises:
            InvalidSetting: It is another word.
        """
        value = self.extra_specs.get(key) or None
        if value is not None and value not in choices:
            raise errors.InvalidSetting(f"{value!r} is not a value of {key}")
        return value

    def agreed(self, key: str, name: str) -> str | None:
        """Return the value that flavor ``key`` and image ``name`` agree on; either may be unset.

        Raises:
            FlavorImageConflict: Both are set and differ.
        """
        ours, theirs = self.extra_specs.get(key) or None, self.image(name) or None
        _refuse_difference(key, ours, name, theirs)
        return ours or theirs

    def agreed_flag(self, key: str, name: str) -> bool:
        """Do as ``agreed`` for booleans: return true if either is."""
        ours, theirs = self.flag(key), self.image(name)
        _refuse_difference(key, ours, name, theirs)
        return bool(ours or theirs)

    def agreed_choice(self, key: str, name: str, choices: frozenset[str]) -> str | None:
        """Do as ``agreed`` for words.

        Raises:
            InvalidSetting: The word is none of ``choices``.
        """
        value = self.agreed(key, name)
        if value is not None and value not in choices:
            raise errors.InvalidSetting(f"{value!r} is not a value of {key} or {name}")
        return value


def _refuse_difference(key, ours, name, theirs) -> None:
    if ours is not None and theirs is not None and ours != theirs:
        raise errors.FlavorImageConflict(f"The flavor says {key}={ours}, but the image says {name}={theirs}")
