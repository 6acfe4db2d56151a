"""Kernels that take text apart; a folder of their own, because editing one compiles all kernels again."""
