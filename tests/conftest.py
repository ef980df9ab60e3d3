"""Shared settings: Hypothesis without a deadline (the first call of a kernel compiles it)."""

from hypothesis import settings

settings.register_profile("flexdome", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("flexdome")
