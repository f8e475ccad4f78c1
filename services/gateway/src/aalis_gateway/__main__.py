"""This is about `python -m aalis_gateway`."""

from aalis_gateway.app import main

main()
