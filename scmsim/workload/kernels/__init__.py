"""Compiled inner loops of workloads."""
