"""This is about `python -m aalis_persona`."""

from aalis_persona.app import main

main()
