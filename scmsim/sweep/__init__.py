"""Run sweeps, which are many replays that differ in some parameters.

A sweep can be resumed, runs on threads, processes or a cluster, and yields one table of results.

`config` reads the points from a file, `point` evaluates a point, `store` stores finished points, `executors` runs points, and `run`
runs a whole sweep.
"""
