"""The screens by their keys."""

from __future__ import annotations

from infer.tui.places import PLACES, available
from infer.tui.verbs import BY_NAME


def test_keys_count_up_and_names_are_verbs() -> None:
    assert [place.key for place in PLACES] == [str(number) for number in range(1, len(PLACES) + 1)]
    assert all(place.name in BY_NAME for place in PLACES)
    assert all(BY_NAME[place.key].name == place.name for place in PLACES)


def test_every_screen_that_is_there_can_be_made_and_knows_its_place() -> None:
    for place in available():
        assert place.name == place.make().MODE


def test_the_models_come_first() -> None:
    assert available()[0].name == "models"
