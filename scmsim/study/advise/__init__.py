"""Which page sizes suit a trace: many policies from one pass over it, and those that no other beats.

`profile` reads the trace once, `search` evaluates every combination and keeps the Pareto front, `words` says it in sentences.
docs/advise.md states what is exact and what is approximated.
"""
