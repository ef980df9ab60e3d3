"""Learning from a system without a simulator: episodes in tables, a journal that survives any kill."""

from flexdome.live.sampling import sample_episodes
from flexdome.live.tables import read_episodes, write_episodes

__all__ = ["read_episodes", "sample_episodes", "write_episodes"]
