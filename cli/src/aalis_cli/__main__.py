"""This is about `python -m aalis_cli`, which is what the launcher runs."""

import sys

from aalis_cli.main import main

sys.exit(main())
