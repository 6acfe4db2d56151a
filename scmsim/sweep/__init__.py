"""Sweeps: many replays that differ in some parameters, resumable, on threads, processes or a cluster; one table at the end.

`config` turns a file into points, `point` evaluates one, `store` keeps finished ones, `executors` runs them, `run` is the whole.
"""
