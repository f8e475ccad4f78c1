"""Prompt-budget: says where the context window goes.

A plugin like any other: it hears `token:usage` and answers one tool, `prompt_budget_info`, so that
a model can look up in its tool loop what its last call consumed. Read in this order: `app` (builds
the service), `settings`, `adapters` (the cache, and the stream itself), `lookup` (the story: which
snapshot is the newest, and may this caller see it), `budget` (snapshot to answer), `visibility`,
`snapshots` (what is kept, and a bounded map of it).
"""
