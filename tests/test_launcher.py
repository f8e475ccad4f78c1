"""`./aalis` on a machine that has never seen it, and on machines where something went wrong.

The checkout here is a small one with an empty lock: pip runs for real and needs no network.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYTHON = str(Path(sys.base_prefix) / "bin" / "python3")
TOOLS = ("cat", "cksum", "mkdir", "readlink", "rm", "sh")
UNOBTAINABLE = "aalis-no-such-distribution==1 --hash=sha256:" + "0" * 64 + "\n"

pytestmark = pytest.mark.timeout(120)


class Checkout:
    """A checkout that holds the launcher, an empty lock and a command line that repeats itself."""

    def __init__(self, root: Path) -> None:
        self.root = root / "a checkout"
        self.venv = self.root / ".venv"
        self.bin = root / "bin"
        module = self.root / "cli" / "src" / "aalis_cli"
        for directory in (module, self.root / "libs/x/src", self.root / "services/y/src", self.bin):
            directory.mkdir(parents=True)
        for tool in TOOLS:
            (self.bin / tool).symlink_to(str(shutil.which(tool)))
        shutil.copy(ROOT / "aalis", self.root)
        (module / "__init__.py").touch()
        (module / "__main__.py").write_text("import sys\nprint(sys.argv[1:])\n")
        self.lock("")

    def lock(self, text: str) -> None:
        (self.root / "requirements.lock").write_text(text)

    def begin(
        self, *arguments: str, python: str | None = PYTHON, command: Sequence[str | Path] = ()
    ) -> subprocess.Popen[str]:
        environment = {"PATH": str(self.bin), "PIP_NO_INDEX": "1", "HOME": str(self.root)}
        if python:
            environment["AALIS_PYTHON"] = python
        return subprocess.Popen(
            [*(command or [self.root / "aalis"]), *arguments],
            cwd=self.bin,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def start(
        self, *arguments: str, python: str | None = PYTHON, command: Sequence[str | Path] = ()
    ) -> tuple[int, str, str]:
        """Return the exit code, what was printed, and what was said on the error stream."""
        process = self.begin(*arguments, python=python, command=command)
        printed, said = process.communicate(timeout=100)
        return process.returncode, printed, said


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Return a checkout whose first start is over."""
    checkout = Checkout(tmp_path_factory.mktemp("ready"))
    code, printed, said = checkout.start("up")
    assert (code, printed) == (0, "['up']\n"), said
    return checkout


def test_a_second_start_says_nothing_and_looks_for_no_python(ready: Checkout) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in ready.venv.iterdir())

    assert ready.start("ask", "two words", python=None) == (0, "['ask', 'two words']\n", "")
    assert before == sorted((path, path.stat().st_mtime_ns) for path in ready.venv.iterdir())


def test_it_is_found_through_links_and_by_sh(ready: Checkout) -> None:
    (ready.bin / "first").symlink_to(ready.root / "aalis")
    (ready.bin / "second").symlink_to("first")

    for command in (["./second"], ["sh", "second"], ["sh", ready.root / "aalis"]):
        assert ready.start("x", command=command) == (0, "['x']\n", "")


def test_a_file_where_it_is_called_from_does_not_stand_in_for_ours(ready: Checkout) -> None:
    (ready.bin / "aalis_cli.py").write_text("print('not ours')\n")

    assert ready.start() == (0, "[]\n", "")


def test_a_changed_lock_is_installed_over_the_old_one(ready: Checkout) -> None:
    ready.lock("# changed\n")

    _, _, said = ready.start()

    assert "installing requirements.lock" in said
    assert "making .venv" not in said
    assert ready.start() == (0, "[]\n", "")


def test_half_an_install_is_not_taken_for_a_whole_one(checkout: Checkout) -> None:
    checkout.lock(UNOBTAINABLE)
    code, printed, said = checkout.start()

    assert (code, printed) == (1, "")
    assert said.splitlines()[-1].startswith("aalis: pip could not install requirements.lock")
    log = Path(said.rstrip("\n").rpartition("see ")[2])
    assert "aalis-no-such-distribution" in log.read_text()

    checkout.lock("")
    _, printed, said = checkout.start()

    assert printed == "[]\n"
    assert "making .venv" in said


def test_two_first_starts_at_once_make_one_environment(checkout: Checkout) -> None:
    starts = [checkout.begin(str(number)) for number in range(3)]
    answers = [start.communicate(timeout=100) for start in starts]

    assert [printed for printed, _ in answers] == ["['0']\n", "['1']\n", "['2']\n"]
    assert sum(said.count("making .venv") for _, said in answers) == 1


def test_a_start_that_was_killed_is_waited_for_and_then_repeated(checkout: Checkout) -> None:
    killed = checkout.begin()
    deadline = time.monotonic() + 30
    while not checkout.venv.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.kill()

    code, printed, said = checkout.start()
    killed.communicate(timeout=30)

    assert (code, printed) == (0, "[]\n")
    assert said.splitlines()[0] == "aalis: another start is installing; waiting for it"
    assert "making .venv" in said


def stub(checkout: Checkout, name: str, script: str) -> None:
    file = checkout.bin / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_without_python_it_says_so_in_one_line(checkout: Checkout) -> None:
    stub(checkout, "python3", "exit 1")  # as a Python that is too old answers

    code, _, said = checkout.start(python=None)

    assert code == 1
    assert said.count("\n") == 1
    assert "no Python 3.11 or newer" in said
    assert "AALIS_PYTHON" in said


def test_the_first_python_that_is_new_enough_is_taken(checkout: Checkout) -> None:
    stub(checkout, "python3.13", "exit 127")  # a version manager's stub with nothing behind it
    stub(checkout, "python3.12", f'case $* in *ensurepip*) exit 1 ;; esac\nexec {PYTHON} "$@"')

    _, _, said = checkout.start(python=None)

    assert said.startswith("aalis: python3.12 has no venv module")


def test_without_the_venv_module_it_says_what_to_install(checkout: Checkout) -> None:
    stub(checkout, "crippled", f'case $* in *ensurepip*) exit 1 ;; esac\nexec {PYTHON} "$@"')

    code, _, said = checkout.start(python=str(checkout.bin / "crippled"))

    assert code == 1
    assert said.count("\n") == 1
    assert "apt install python3-venv" in said


def test_a_checkout_that_cannot_be_written_says_so_in_one_line(checkout: Checkout) -> None:
    (checkout.root / ".aalis").touch()  # root may write into a read-only directory, not into a file

    code, _, said = checkout.start()

    assert code == 1
    assert said.count("\n") == 1
    assert "permissions" in said
