"""A directory of cards: read again when it changes, and never lost to a slip in an editor."""

import json
import os
import re
from pathlib import Path

import pytest

from aalis_persona.adapters.cards_directory import CardDirectory
from aalis_persona.settings import SAMPLES

ROOT = Path(__file__).parents[3]


class Watched:
    """A directory that is looked at each time it is asked about."""

    def __init__(self, directory: Path) -> None:
        self._cards = CardDirectory(directory, pause=0.0)

    async def names(self) -> dict[str, str]:
        return {key: card.name for key, card in (await self._cards.current()).items()}


def write(directory: Path, **cards: str) -> None:
    for name, text in cards.items():
        (directory / f"{name}.yaml").write_text(text, encoding="utf-8")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [record for record in caplog.records if record.levelname == "WARNING"]
    return [f"{record.getMessage()} {vars(record)['aalis_fields']}" for record in found]


async def test_the_samples_are_cards_without_a_flaw(caplog: pytest.LogCaptureFixture) -> None:
    cards = await CardDirectory(SAMPLES).current()

    assert sorted(cards) == ["catgirl", "night-radio", "strict-reviewer"]
    assert warnings(caplog) == []


async def test_the_cards_of_the_documentation_are_cards_without_a_flaw(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    page = (ROOT / "docs" / "personas.md").read_text(encoding="utf-8")
    written = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    write(tmp_path, **{f"card-{number}": text for number, text in enumerate(written)})

    names = await Watched(tmp_path).names()

    assert list(names.values()) == ["Ada", "Night Radio"]
    assert warnings(caplog) == []


async def test_a_card_is_known_by_its_file_and_read_again_when_that_changes(
    tmp_path: Path,
) -> None:
    watched = Watched(tmp_path)
    assert await watched.names() == {}

    write(tmp_path, cat="name: Miu")
    (tmp_path / "dog.yml").write_text("name: Rex", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no card", encoding="utf-8")
    (tmp_path / ".cat.yaml").write_text("name: an editor's own", encoding="utf-8")
    assert await watched.names() == {"cat": "Miu", "dog": "Rex"}

    write(tmp_path, cat="name: Miu the second")
    (tmp_path / "dog.yml").unlink()
    assert await watched.names() == {"cat": "Miu the second"}


async def test_of_two_files_of_one_name_the_longer_suffix_counts(tmp_path: Path) -> None:
    (tmp_path / "cat.yml").write_text("name: Rex", encoding="utf-8")
    write(tmp_path, cat="name: Miu")

    assert await Watched(tmp_path).names() == {"cat": "Miu"}


async def test_what_was_just_seen_is_good_enough(tmp_path: Path) -> None:
    patient = CardDirectory(tmp_path, pause=3600.0)
    assert await patient.current() == {}

    write(tmp_path, cat="name: Miu")

    assert await patient.current() == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"name: [", "broken.yaml:1: "),
        (b"\xff\xfe", "broken.yaml: not UTF-8 text"),
        (b"name: a\ntraits: {a: b}", "broken.yaml:2: Input should be a valid list"),
        (b"name: a\nname: b", "broken.yaml:2: the key 'name' stands twice"),
        (b"- a list", "broken.yaml:1: "),
        (b"#" * 300_000, "at most 262144 are read"),
    ],
)
async def test_a_card_that_cannot_be_read_is_named_once_and_the_others_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: bytes, reason: str
) -> None:
    write(tmp_path, good="name: Good")
    (tmp_path / "broken.yaml").write_bytes(text)
    watched = Watched(tmp_path)

    for _ in range(3):
        assert await watched.names() == {"good": "Good"}

    (said,) = warnings(caplog)
    assert said.startswith("card is unreadable and left out")
    assert str(tmp_path / "broken.yaml") in said
    assert reason in said


async def test_what_is_no_file_is_named_once_and_never_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, good="name: Good")
    (tmp_path / "directory.yaml").mkdir()
    (tmp_path / "gone.yaml").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.yaml")
    watched = Watched(tmp_path)

    for _ in range(2):
        assert await watched.names() == {"good": "Good"}

    directory, gone, pipe = warnings(caplog)
    assert "directory.yaml: not a file" in directory
    assert "No such file" in gone
    assert "pipe.yaml: not a file" in pipe


async def test_a_card_that_breaks_stays_as_it_was_until_it_is_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watched = Watched(tmp_path)
    write(tmp_path, cat="name: Miu")
    await watched.names()

    write(tmp_path, cat="name: [a slip")
    assert await watched.names() == {"cat": "Miu"}
    (said,) = warnings(caplog)
    assert said.startswith("card is unreadable and stays as it was")

    write(tmp_path, cat="name: Miu, mended")
    assert await watched.names() == {"cat": "Miu, mended"}


async def test_a_directory_that_vanishes_leaves_the_cards_as_they_were(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    write(home, cat="name: Miu")
    watched = Watched(home)
    await watched.names()

    home.rename(tmp_path / "elsewhere")

    for _ in range(2):
        assert await watched.names() == {"cat": "Miu"}
    (said,) = warnings(caplog)
    assert said.startswith("cards cannot be listed")


async def test_a_mistyped_key_and_a_format_that_cannot_be_used_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, cat="nmae: Miu\noutputFormat: {a: {}}")

    assert await Watched(tmp_path).names() == {"cat": ""}

    key, ignored = warnings(caplog)
    assert "key 'nmae' is unknown and ignored" in key
    assert "outputFormat is ignored: 0 fields are marked" in ignored


async def test_a_mounted_config_map_is_followed_through_its_links(tmp_path: Path) -> None:
    for version, name in (("..v1", "Miu"), ("..v2", "Miu the second")):
        (tmp_path / version).mkdir()
        write(tmp_path / version, cat=json.dumps({"name": name}))
    data = tmp_path / "..data"
    data.symlink_to("..v1")
    (tmp_path / "cat.yaml").symlink_to("..data/cat.yaml")
    watched = Watched(tmp_path)
    assert await watched.names() == {"cat": "Miu"}

    fresh = tmp_path / "..data_tmp"
    fresh.symlink_to("..v2")
    fresh.replace(data)

    assert await watched.names() == {"cat": "Miu the second"}
