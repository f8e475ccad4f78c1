"""This is about running the agent with `python -m aalis_agent`."""

from aalis_agent.app import main

main()
