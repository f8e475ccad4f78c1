"""What `./aalis test` runs: the checks of this repository, cheapest first.

A check that read no file has checked nothing, so each one counts what it read, and zero fails.
All of them run even when one fails: whoever waits for the tests wants to hear everything at once.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
# Beside the interpreter that runs this file, not on PATH: nobody has activated the environment.
BIN: Final = Path(sys.executable).parent
SOURCES: Final = [*ROOT.glob("libs/*/src"), *ROOT.glob("services/*/src"), ROOT / "cli" / "src"]
NO_TESTS_RAN: Final = 5


@dataclass(frozen=True)
class Finding:
    """How many files a check read, and what it complains about (empty: nothing)."""

    files: int
    complaint: str


def main(arguments: Sequence[str]) -> int:
    """Run the chosen checks and return the exit code."""
    options, pytest_arguments = parse(arguments)
    os.chdir(ROOT)
    clean_environment()
    if options.only == ["fix"]:
        return fix()
    failed = [name for name, check in CHECKS.items() if name in options.only and not report(check)]
    if "tests" in options.only and not tests(options, pytest_arguments):
        failed.append("tests")
    if failed:
        print(f"FAILED: {', '.join(failed)}", flush=True)
    return 1 if failed else 0


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Split our own options from what is passed on to pytest."""
    parser = argparse.ArgumentParser(
        prog="aalis test",
        description="Run the checks of this repository; unknown arguments go to pytest.",
        allow_abbrev=False,
    )
    names = [*CHECKS, "tests"]
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=names,
        metavar="A,B",
        help=f"some of {','.join(names)}; or fix, which rewrites files",
    )
    parser.add_argument(
        "-n",
        "--workers",
        default=os.environ.get("AALIS_TEST_WORKERS", "2"),
        help="test processes, 0 for none beside this one (AALIS_TEST_WORKERS, default 2)",
    )
    parser.add_argument("--coverage", action="store_true", help="report the branches tests took")
    options, rest = parser.parse_known_args(arguments)
    unknown = set(options.only) - {*names, "fix"}
    if unknown:
        parser.error(f"--only knows {', '.join(names)} and fix, not {', '.join(sorted(unknown))}")
    return options, [argument for argument in rest if argument != "--"]


def clean_environment() -> None:
    """Make the outcome depend on the checkout alone, not on the shell it is started from."""
    # A key or a base URL of the shell would send a test to a real provider; AALIS_TEST_* is meant
    # for the tests. conftest.py does the same for a plain pytest.
    for name in list(os.environ):
        ours = name.startswith("AALIS_") and not name.startswith("AALIS_TEST_")
        if ours or name.startswith(("ANTHROPIC_", "OPENAI_", "PYTEST_", "RUFF_")):
            del os.environ[name]
    os.environ["PYTHONPATH"] = os.pathsep.join(str(path) for path in SOURCES)
    os.environ["COLUMNS"] = "100"


def fix() -> int:
    """Rewrite files as the linter's safe fixes and the formatter want them."""
    linted = subprocess.run([BIN / "ruff", "check", "--fix-only", "."], check=False)
    formatted = subprocess.run([BIN / "ruff", "format", "."], check=False)
    return linted.returncode or formatted.returncode


def report(check: Callable[[], Finding]) -> bool:
    """Run one check, print one line about it, and its complaint if there is one."""
    began = time.monotonic()
    finding = check()
    seconds = time.monotonic() - began
    passed = finding.files > 0 and not finding.complaint
    verdict = "ok" if passed else "FAILED"
    print(f"{check.__name__:8} {verdict:6} {finding.files:4} files {seconds:6.1f} s", flush=True)
    if not passed:
        print(finding.complaint or "It read no file, so it checked nothing.", flush=True)
    return passed


def format() -> Finding:  # noqa: A001 - named as the person who asks for it names it
    """Ask whether every file is formatted."""
    return _ruff("format", "--check", "--diff", "--quiet")


def lint() -> Finding:
    """Ask the linter."""
    return _ruff("check", "--output-format=concise", "--quiet")


def types() -> Finding:
    """Ask the type checker; a warning counts as much as an error."""
    done = _run("basedpyright", "--outputjson", "--pythonpath", sys.executable)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return Finding(0, done.stdout + done.stderr)
    lines = [
        "{}:{}: {} ({})".format(
            Path(found["file"]).relative_to(ROOT),
            found["range"]["start"]["line"] + 1,
            found["message"],
            found.get("rule", found["severity"]),
        )
        for found in answer["generalDiagnostics"]
        if found["severity"] in {"error", "warning"}
    ]
    return Finding(answer["summary"]["filesAnalyzed"], _complaint(done, "\n".join(lines)))


def imports() -> Finding:
    """Ask who imports whom."""
    done = _run("lint-imports", "--no-logo", "--no-cache")
    analysed = re.search(r"^Analyzed (\d+) files", done.stdout, re.MULTILINE)
    return Finding(int(analysed[1]) if analysed else 0, _complaint(done, done.stdout))


CHECKS: Final[dict[str, Callable[[], Finding]]] = {
    "format": format,
    "lint": lint,
    "types": types,
    "imports": imports,
}


def tests(options: argparse.Namespace, pytest_arguments: Sequence[str]) -> bool:
    """Run pytest with its output as it comes; its closing line is ours."""
    runner = [sys.executable, "-m"]
    if options.coverage:
        runner += ["coverage", "run", "-m"]
    # In the order of `testpaths`, the long ones first: whoever is last should be short.
    spread = ["-n", options.workers, "--dist", "loadfile", "--no-loadscope-reorder"]
    command = [*runner, "pytest", *spread, *pytest_arguments]
    code = subprocess.run(command, check=False).returncode
    if code == NO_TESTS_RAN:
        print("No test ran, so nothing was tested.", flush=True)
    if options.coverage:
        subprocess.run([BIN / "coverage", "combine", "--quiet"], check=False)
        subprocess.run([BIN / "coverage", "report"], check=False)
    return code == 0


def _ruff(*arguments: str) -> Finding:
    shown = _run("ruff", "check", "--show-files", ".")
    files = sum(line.endswith((".py", ".pyi")) for line in shown.stdout.splitlines())
    done = _run("ruff", *arguments, ".")
    return Finding(files, _complaint(done, done.stdout))


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BIN / program, *arguments], check=False, capture_output=True, encoding="utf-8"
    )


def _complaint(done: subprocess.CompletedProcess[str], text: str) -> str:
    """Return nothing for a clean exit, otherwise whatever there is to say."""
    if done.returncode == 0:
        return ""
    return text.strip() or done.stderr.strip() or f"exit code {done.returncode}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
