"""The conformance suite of the sandbox port, for a sandbox of your own: `with ground(folder, path) as here`,
then `await broken(attack, sandbox, here)` for each of `ATTACKS`; it says what did not hold, or nothing."""

from mainspring.sandbox.attacks import ATTACKS, Attack
from mainspring.sandbox.trial import Ground, broken, ground, is_listed

__all__ = ["ATTACKS", "Attack", "Ground", "broken", "ground", "is_listed"]
