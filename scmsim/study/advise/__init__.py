"""Find page sizes that suit a trace: evaluate many policies from one pass over it, and keep the Pareto front.

`profile` reads the trace once, `search` evaluates every combination of page sizes and keeps the Pareto front, and `text`
describes the result in sentences. docs/guide/advise.md states what is exact and what is approximated.
"""
