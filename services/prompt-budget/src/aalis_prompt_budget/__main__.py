"""This is about `python -m aalis_prompt_budget`."""

from aalis_prompt_budget.app import main

main()
