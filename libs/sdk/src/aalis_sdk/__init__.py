"""What every process on the mesh needs: reach NATS, offer things, survive restarts, be seen.

Read in this order: `settings`, `logs`, `tracing`, `mesh` (one connection: publish, store,
request, respond), `buckets` (key-value), `topology` (streams and consumers), `delivery` (durable
consumption), `registry` (who offers what), `hooks` (ask the interceptors), `plugin` (offer tools,
interceptors, prompt blocks, commands), `sessions` (records and settings), `adapter` (a platform),
`health`, `service` (a process from start to SIGTERM), `testing` (real servers for tests).
"""
