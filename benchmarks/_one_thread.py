"""Linear algebra on one thread, set before NumPy is loaded: more cost more than they bring on small matrices."""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
