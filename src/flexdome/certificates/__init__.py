"""With what confidence a policy meets its thresholds: confidence sequences, certificates, a monitor."""

from flexdome.certificates.methods import certify, certify_mixture, certify_seen
from flexdome.certificates.model_set import Seen
from flexdome.certificates.monitor import Alarm, Monitor
from flexdome.certificates.promise import check_promise
from flexdome.certificates.recorded import Recorded, load_episodes, save_episodes
from flexdome.certificates.sequences import LowerSequence, Sequence
from flexdome.certificates.verdict import Certificate, Verdict

__all__ = [
    "Alarm",
    "Certificate",
    "LowerSequence",
    "Monitor",
    "Recorded",
    "Seen",
    "Sequence",
    "Verdict",
    "certify",
    "certify_mixture",
    "certify_seen",
    "check_promise",
    "load_episodes",
    "save_episodes",
]
