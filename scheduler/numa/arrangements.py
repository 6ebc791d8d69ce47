"""Ways to pick k of n host cells in order, one after the other, with the means to leave many out at once."""


def first(chosen: int) -> list[int]:
    return list(range(chosen))


def advance(places: list[int], pivot: int, n: int) -> int | None:
    """Make ``places`` the next arrangement, in lexicographic order, that differs at ``pivot`` or before.

    Positions after the one that changes start anew with the smallest. Returns the first changed position, or
    None (and leaves ``places`` undefined) when there is no next one.
    """
    used = set(places[: pivot + 1])
    for position in range(pivot, -1, -1):
        used.discard(places[position])
        following = next((place for place in range(places[position] + 1, n) if place not in used), None)
        if following is not None:
            places[position] = following
            used.add(following)
            unused = (place for place in range(n) if place not in used)
            places[position + 1 :] = [next(unused) for _ in places[position + 1 :]]
            return position
    return None
