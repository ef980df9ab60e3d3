"""Learning from a system without a simulator: episodes in tables, a journal that survives any kill."""

from flexdome.live.episode_tables import read_episodes
from flexdome.live.journal import Journal
from flexdome.live.recovery import recover
from flexdome.live.sampling import sample_episodes
from flexdome.live.writing import write_episodes

__all__ = ["Journal", "read_episodes", "recover", "sample_episodes", "write_episodes"]
