"""Sweeps: many replays that differ in some parameters, resumable, on threads, processes or a cluster, with one result table.

`config` turns a file into points, `point` evaluates a point, `store` keeps finished points, `executors` runs points, and `run` runs
a whole sweep.
"""
