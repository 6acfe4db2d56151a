"""Find page sizes that suit a trace: evaluate many policies from one pass over it, and keep the Pareto front.

`profile` reads the trace once, `search` evaluates every combination and keeps the Pareto front, `text` puts it into
sentences. docs/guide/advise.md states what is exact and what is approximated.
"""
