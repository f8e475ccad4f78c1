"""Model providers behind one port: ask any model the same way, and know why it failed.

Read in this order: `port` (what a provider is), `errors` and `classify` (why a call failed, and
what a person is told), `response` (chunks put together), `retry` (calling again), `profiles`,
`shape` and its steps `shape_texts`, `shape_tools`, `shape_roles`, `shape_reasoning` (what each
provider accepts), `settings`, `env` and `config` (which providers serve here), `providers` (all of
them together), `listing` (the models of one), `transport`, `sse` and `assembly` (reading an
answer), then the providers: `openai` with `openai_body` and `openai_stream`, `anthropic` alike,
and `scripted` with `script`, `script_file`, `script_scene`, `script_directives`, `script_rules`
and, behind HTTP, `scripted_http`. Rules about text: `heuristic` (what it costs), `leaked`,
`tables`, `json_repair`, `checked_yaml`. Whether a request fits its provider: `testing`.
"""
