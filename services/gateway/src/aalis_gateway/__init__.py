"""The gateway: orders, filters and routes what people say, and lets answers out.

Read in this order, which is how a message passes and who may import whom: `app` (builds the
service), `settings`, `intake` (a delivery arrives: what may come in), `phases` (the story: confirm,
command, flow, trigger, dispatch), `commands` (a person's command line), `builtin` (help, status,
clear), `confirm` and `questions` (asking a person), `running` (a command, once), `command_line`
(reading one), `flow`, `nicknames` and `trigger` (what the agent need not hear), `shadow` (keeping
that all the same), `dispatch` (into the lane's mailbox), `absence` (nobody answers), `records`
(session records), `outbound` (the way out), `passage` (a message on its way) and `identity` (the
ids of all that it causes).
"""
