"""What every event is, and how a field says what becomes of secrets in it.

Every text of an event is recorded without secrets, however deep it lies, unless its type says otherwise: a
plain `str` is hidden, one of the types below is not, or in another way. A `Literal` can hold no secret.
`secrets/redaction.py` reads these types; files hold all of them as plain text.
"""

from typing import Annotated

import msgspec


class Exempt(msgspec.Struct, frozen=True):
    """Marks text that is recorded as it is, and says why."""

    reason: str


class Encoded(msgspec.Struct, frozen=True):
    """Marks JSON as text: secrets are hidden in what it decodes to, so that it stays JSON."""


class SealedBy(msgspec.Struct, frozen=True):
    """Marks text that is recorded as it is when the field `name` beside it holds its provider's seal."""

    name: str


class Dropped(msgspec.Struct, frozen=True):
    """Marks a tuple that is recorded empty when anything in it holds a secret."""


Id = Annotated[str, Exempt("an id that we made ourselves")]
Sha256 = Annotated[str, Exempt("a hash")]
Word = Annotated[str, Exempt("one of the words of this program, or its version")]
OwnPath = Annotated[str, Exempt("a path in our own data folder, made of ids")]
Sealed = Annotated[str, Exempt("sealed by its provider, which would refuse it changed")]
JsonText = Annotated[str, Encoded()]


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A recorded fact. Facts never refer to each other in circles, so the collector does not look at them."""


class Unknown(Event, frozen=True):
    """A fact of a kind that this version does not know, kept as it was."""

    kind: str
    body: msgspec.Raw
