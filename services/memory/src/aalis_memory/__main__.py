"""This is about `python -m aalis_memory`."""

from aalis_memory.app import main

main()
