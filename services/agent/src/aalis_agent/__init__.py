"""The agent: runs a turn, from the prompt to the reply."""
