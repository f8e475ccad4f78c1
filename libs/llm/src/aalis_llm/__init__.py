"""Model providers behind one port: ask any model the same way, and know why it failed.

Read in this order: `port` (what a provider is), `errors` and `classify` (why a call failed, and
what a person is told), `response` (chunks put together), `retry` (calling again), `profiles` and
`shape` (what each provider accepts), the providers `openai`, `anthropic` and `scripted`, and
`config` (which of them serve here). Pure modules below them: `sse`, `assembly`, `wire`,
`heuristic`, `script`, `script_rules`, `leaked`, `tables`, `json_repair`.
"""
