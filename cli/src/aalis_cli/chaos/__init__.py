"""This is about chaos: killing processes while the platform works, and seeing that nothing is lost.

`errands` says what is said and what must come of it; `fleet` runs the real processes; `workshop`
(a tool host) and `recorder` (an adapter) are two of them; `evidence` is what can be seen from
outside; `invariants` judges it, purely; `matrix` and `storm` are two ways of making trouble.
"""
