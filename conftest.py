"""What holds for every test, however pytest was started: nothing of the shell leaks in."""

import os

# A key or a base URL of the shell would send a test to a real provider, and a setting of a running
# stack would send it to that stack. AALIS_TEST_* is meant for the tests.
for _name in list(os.environ):
    _ours = _name.startswith("AALIS_") and not _name.startswith("AALIS_TEST_")
    if _ours or _name.startswith(("ANTHROPIC_", "OPENAI_")):
        del os.environ[_name]

# Real servers and processes for every test of the repository, and how hard properties are tried.
pytest_plugins = ["aalis_sdk.testing.fixtures", "aalis_sdk.testing.properties"]
