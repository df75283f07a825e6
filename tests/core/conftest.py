"""Properties are checked for truth, not for speed: a loaded machine must not fail them."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("core", deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
settings.load_profile("core")
