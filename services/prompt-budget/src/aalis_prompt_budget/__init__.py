"""Prompt-budget: says where the context window goes."""
