"""Recordings of pinhead as Arrow tables, and simulations of other policies, hosts and guests.

>>> import pinhead
>>> past = pinhead.Recording("/var/lib/pinhead/recordings")
>>> past.guests(every="1min", fields=["resident_bytes"]).to_pandas()
>>> pinhead.replay(past, policy="proxmox").guests
>>> pinhead.size(past).guests

Names end in their unit: ``_bytes``, ``_ns`` (nanoseconds), ``_ms`` (milliseconds), ``_permille``
(thousandths). The metadata of a recording's column has its unit, its source and its description.
Times are ``datetime`` with a time zone, or milliseconds since 1970.
"""

from ._native import Error
from ._recording import Recording
from ._sweep import SWEEP_SCHEMA, WorkerLost, sweep
from ._whatif import Fit, Replayed, Run, Sizes, World, fit, replay, simulate, size

__all__ = [
    "SWEEP_SCHEMA",
    "Error",
    "Fit",
    "Recording",
    "Replayed",
    "Run",
    "Sizes",
    "WorkerLost",
    "World",
    "fit",
    "replay",
    "simulate",
    "size",
    "sweep",
]
