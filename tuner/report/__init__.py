"""A run as a page: one HTML file that needs no network, or the same page live over loopback.

Reads records and never writes one. What it says about a run it takes from :mod:`tuner.driver`; of its own it only adds
statistics over what the search saw (importance, associations), each labelled with how it was computed.
"""

from tuner.report.follow import Follower
from tuner.report.page import live_page, report_page, write_report

__all__ = ["Follower", "live_page", "report_page", "write_report"]
