"""Which page sizes suit a trace: evaluate many policies from one pass over it, and keep those that no other beats.

`profile` reads the trace once, `search` evaluates every combination and keeps the Pareto front, `words` puts it into
sentences. docs/guide/advise.md states what is exact and what is approximated.
"""
