"""Executors: where builds and timings of a run happen when that is not one lane of this machine.

Every executor does the same jobs (:mod:`tuner.core.executors`) with the same worker (:mod:`.worker`).
"""
