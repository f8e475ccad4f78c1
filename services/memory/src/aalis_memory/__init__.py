"""Memory: keeps the history of every session, archives what people said, and finds it again.

Read in this order, which is also who may import whom: `app` (builds the service), `settings`,
`service` (requests and tools on the mesh), `tools` (the todo list, other sessions' history),
`requests` (what each `memory.*` subject does), `archive` (how what people said becomes a row),
`adapters` (`store_sql` on `database`, with `tables`, `rows_json` and the `migrations`;
`events_mesh`; `fakes`), `rows` (which messages are kept) and `ports` (what all of it needs).
"""
