"""The agent: runs a turn, from a delivery to the announced end.

Read in this order, which is how a turn happens and who may import whom. The edge: `app` (builds the
service), `settings`, `adapters` (the world), `conform` (vector files), `commands` (what a person
types for the agent; `changes`, `overview` and `pages` decide what is written and shown), `snapshot`
(usage without a turn). The story: `intake` (a delivery arrives), `aborts` (ending turns on
somebody's word), `turn` (step after step), `concluding` (the reply), `tools` (the calls of a
response), `model` (one question), `contributions` (what plugins add), `planning` (what to answer,
with what), `resolution` (which model), `input` (before anything is made of it), `parts` (all that a
turn works with), `debts` (rows that memory did not take), `endings` (deliver, settle, announce),
`together` (side by side, one error), `lane` (ownership), `fitting` (what is too long for the
journal), `frames` (text while it is written). What decides, purely: `reply` (rows and messages),
`steps` (facts become the next step), `prompt` (the list), `history`, `trimming`, `shrinking` (the
protected parts), `draft` (a running sum), `usage` (twelve buckets), `results` (how long one may
be), `budgets`, `tokens` (what a text costs). Below all: `presence` (absence is said once),
`options`, `ports` (what a turn needs from the world).
"""
