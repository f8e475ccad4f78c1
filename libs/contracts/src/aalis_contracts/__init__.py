"""The vocabulary of Aalis: what its services say to each other, and on which subjects.

Read in this order: `text` (well-formed Unicode, cuts), `contract` (how a body is read and
written), `messages`, `tools`, `models`, `sessions`, `events`, `registry`, `hooks`, `journal`,
`rpc`, `errors`, `dead`, `subjects`, `catalogue` (person-facing texts), `examples` (one of each),
`schemas` (JSON Schema and AsyncAPI).
"""
