"""Drives a run: asks, builds, verifies, measures, records, confirms; resumes, replays and audits one.

A run is a fold over its events. :mod:`tuner.driver.plan.upcoming` says what comes next as a pure function of
:class:`tuner.driver.state.run.RunState`; :mod:`tuner.driver.work.engine` does it and appends what came of it;
:mod:`tuner.driver.replay` goes over a finished record and checks that each event is what the plan called for.
"""
