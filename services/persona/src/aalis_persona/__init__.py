"""Persona: says who the assistant is in a session, and holds its answers to a format.

A plugin like any other: it answers two requests and intercepts two hooks; the agent works without
it. Read in this order: `app` (builds the service), `settings`, `adapters` (the directory of cards,
states in memory's store), `personas` (the story: asked before a turn, asked about its reply),
`replies` (what becomes of a model's text), `answers` (JSON held against a format), `prompt` (the
system prompt), `surroundings` (what changes from turn to turn), `formats` (what a card demands of
an answer), `ports`, `cards` (what a persona is).
"""
