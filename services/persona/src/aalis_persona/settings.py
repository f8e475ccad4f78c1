"""This is about the settings of persona."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import DirectoryPath

from aalis_sdk.settings import MeshSettings

SAMPLES: Final = Path(__file__).parent / "samples"


class PersonaSettings(MeshSettings):
    """What persona can be told."""

    persona_cards: DirectoryPath = SAMPLES
    """Directory of the cards, one YAML file each; none = the samples that come with the service."""
    persona_time: bool = True
    """Whether a model that plays a persona is told the current time, in AALIS_TZ."""
    persona_state: bool = False
    """Whether what an answer says beside its reply is kept and shown to the next turn."""
