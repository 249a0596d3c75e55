"""Property tests draw the same examples every time; `HYPOTHESIS_PROFILE=explore` looks for new ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A slow machine is no defect of a test.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("patient"), derandomize=True)
settings.register_profile("explore", settings.get_profile("patient"), max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
