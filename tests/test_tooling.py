"""The lists that tools cannot share, held to each other."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted(
    file.parent
    for pattern in ("cli/pyproject.toml", "libs/*/pyproject.toml", "services/*/pyproject.toml")
    for file in ROOT.glob(pattern)
)


def toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


def named(requirement: str) -> str:
    """Return the distribution a requirement names: `fast-stream` for `Fast_Stream[x]>=1`."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return re.sub(r"[._-]+", "-", found[0]).lower()


def pinned(lock: str) -> set[str]:
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    return {named(line) for line in lines if line and line[0] not in " #"}


def test_every_tool_looks_at_the_same_source_directories() -> None:
    tool = toml(ROOT / "pyproject.toml")["tool"]
    sources = [str((package / "src").relative_to(ROOT)) for package in PACKAGES]

    assert tool["ruff"]["src"] == sources
    assert tool["pyright"]["extraPaths"] == sources
    assert tool["pytest"]["pythonpath"] == sources


def test_every_package_is_watched_by_import_linter_and_coverage() -> None:
    tool = toml(ROOT / "pyproject.toml")["tool"]
    modules = sorted(
        child.name
        for package in PACKAGES
        for child in (package / "src").iterdir()
        if child.is_dir()
    )

    assert tool["importlinter"]["root_packages"] == modules
    assert tool["coverage"]["run"]["source_pkgs"] == modules


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_what_a_package_needs_is_pinned(package: Path) -> None:
    project = toml(package / "pyproject.toml")["project"]
    needed = {named(requirement) for requirement in project["dependencies"]}
    ours = {toml(path / "pyproject.toml")["project"]["name"] for path in PACKAGES}

    assert needed <= pinned("requirements.lock") | ours
    assert project["requires-python"] == ">=3.11"


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_a_lock_pins_by_hash_and_names_no_index(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[a-z])", text.split("\n", 2)[2])

    assert "://" not in text
    assert "--index" not in text
    assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)


def test_the_two_locks_agree_where_they_overlap() -> None:
    def pins(lock: str) -> dict[str, str]:
        found = re.findall(r"^([a-z0-9.-]+)==(\S+)", (ROOT / lock).read_text("utf-8"), re.MULTILINE)
        return dict(found)

    run, development = pins("requirements.lock"), pins("requirements-dev.lock")

    assert {name: run[name] for name in run.keys() & development.keys()} == {
        name: development[name] for name in run.keys() & development.keys()
    }
