"""A check that read nothing has checked nothing, and must not pass for it."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "tools" / "checks.py"


@pytest.fixture(scope="module")
def checks() -> ModuleType:
    """Return tools/checks.py, which is a script and on nobody's path."""
    spec = importlib.util.spec_from_file_location("checks", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["checks"] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("files", "complaint", "passed"),
    [(1, "", True), (0, "", False), (1, "line 3", False), (0, "crashed", False)],
)
def test_a_check_passes_when_it_read_something_and_found_nothing(
    checks: ModuleType, files: int, complaint: str, passed: bool
) -> None:
    def probe() -> object:
        return checks.Finding(files, complaint)

    assert checks.report(probe) is passed


@pytest.mark.parametrize("name", ["format", "lint", "types", "imports"])
def test_a_static_check_of_an_empty_tree_fails(
    checks: ModuleType, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.pyright]\ninclude = ["src"]\n[tool.importlinter]\nroot_packages = ["nothing"]\n'
    )
    monkeypatch.chdir(tmp_path)

    assert not checks.report(checks.CHECKS[name])


def test_a_run_that_selects_no_test_fails() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--only", "tests", "-n", "0", "-k", "no_such_test", __file__],
        check=False,
        capture_output=True,
        encoding="utf-8",
    )

    assert done.returncode == 1
    assert "nothing was tested" in done.stdout
