"""Every registered CMDP under a name of Gymnasium's: ``paper-stochastic-v1`` is ``flexdome/PaperStochastic-v1``.

Releases of Gymnasium before 1.0 call :func:`register` by themselves, through the entry point ``gymnasium.envs`` of this
package. Later ones load no entry points; there a name may say what to import, ``flexdome.gym:flexdome/Paper-v1``.
"""

from __future__ import annotations

from flexdome.cmdp.validation import as_text
from flexdome.families import ENVIRONMENTS

__all__ = ["gymnasium_id", "register"]


def gymnasium_id(id: str) -> str:
    """The name that the family ``id`` has in Gymnasium.

    >>> gymnasium_id("deep-sea-v1")
    'flexdome/DeepSea-v1'
    """
    *words, version = as_text("id", id).split("-")
    return f"flexdome/{''.join(word.capitalize() for word in words)}-{version}"


def register() -> None:
    """Register every CMDP with Gymnasium; those that are there already stay."""
    from gymnasium.envs import registration

    for id in ENVIRONMENTS:
        if gymnasium_id(id) not in registration.registry:
            registration.register(
                gymnasium_id(id),
                entry_point="flexdome.gym.environment:CMDPEnv",
                vector_entry_point="flexdome.gym.vector:CMDPVectorEnv",
                kwargs={"environment": id},
            )
