"""Sweeps: many replays that differ in some parameters.

A sweep can be resumed, runs on threads, processes or a cluster, and makes one table of results.

`config` turns a file into points, `point` evaluates a point, `store` keeps finished points, `executors` runs points, and `run` runs
a whole sweep.
"""
