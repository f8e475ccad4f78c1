"""The gateway: orders, filters and routes what people say, and lets answers out.

Read in this order, which is how a message passes and who may import whom: `app` (builds the
service), `settings`, `intake` (a delivery arrives: what may come in), `phases` (the story: confirm,
command, flow, trigger, dispatch), `confirm` and `questions` (asking a person), `commands` and
`builtin` (running a command line), `command_line` (reading one), `flow`, `nicknames` and `trigger`
(what the agent need not hear), `shadow` (keeping that all the same), `dispatch` (into the lane's
mailbox), `absence` (nobody answers), `records` (session records), `outbound` (the way out),
`passage` (a message on its way) and `identity` (the ids of all that it causes).
"""
