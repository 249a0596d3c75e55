"""What operations of the server take and give, where the operations themselves have no value for it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mainspring.app.operations.approve import ApprovalReply
from mainspring.app.operations.cost import CostKey
from mainspring.app.operations.device_roles import Role
from mainspring.events import Extent

Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""Of an event, a version, a step, or so many of them."""


class Taken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a request, or what stands behind its `?`."""


class Nothing(Taken, frozen=True):
    pass


class Page(Taken, frozen=True, kw_only=True):
    limit: Number = 200
    offset: Number = 0


class EventsAfter(Taken, frozen=True, kw_only=True):
    """Events with a number above `after`, or, with `before`, the last ones below it."""

    after: Number = 0
    before: Number | None = None
    limit: Number = 200


class EventAsked(Taken, frozen=True, kw_only=True):
    seq: Number


class BlobAsked(Taken, frozen=True, kw_only=True):
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    size: Number


class KeptAsked(Taken, frozen=True, kw_only=True):
    """A version of an output, by default the newest."""

    name: str
    version: Number | None = None


class ArtifactsCompared(Taken, frozen=True, kw_only=True):
    name: str
    old: Number | None = None
    new: Number | None = None


class ArtifactWords(Taken, frozen=True, kw_only=True):
    words: str = ""
    session: str = ""


class SaveFile(Taken, frozen=True, kw_only=True):
    """A file of the session's workspace, kept under its own or another name."""

    path: str
    name: str = ""
    note: str = ""


class CallAskedFor(Taken, frozen=True, kw_only=True):
    call: str


class BackAsked(Taken, frozen=True, kw_only=True):
    """Without `to_seq` before the last turn."""

    to_seq: Number | None = None


class OutputAsked(Taken, frozen=True, kw_only=True):
    """Without `since` the end of what there is."""

    handle: str
    since: Number | None = None


class FolderAsked(Taken, frozen=True, kw_only=True):
    """Settings for work in a folder; without one, those of the user."""

    folder: str = ""


class SessionAsked(Taken, frozen=True, kw_only=True):
    session: str = ""


class CostAsked(Taken, frozen=True, kw_only=True):
    session: str = ""
    by: CostKey = "model"
    day: str = ""


class ChangesAsked(Taken, frozen=True, kw_only=True):
    step: Number | None = None


class Said(Taken, frozen=True, kw_only=True):
    text: str


class Answer(Taken, frozen=True, kw_only=True):
    """An answer to one call, or to all that is open. It counts only for the arguments that were shown."""

    reply: ApprovalReply
    call: str = ""


class GoBack(Taken, frozen=True, kw_only=True):
    """Without `to_seq` the last turn is taken back."""

    to_seq: Number | None = None
    scope: Extent = "conversation"


class ForkAt(Taken, frozen=True, kw_only=True):
    at: Number | None = None
    model: str = ""


class ProcessNamed(Taken, frozen=True, kw_only=True):
    handle: str


class StartGoal(Taken, frozen=True, kw_only=True):
    """A goal in a folder of this machine, worked on by the daemon."""

    text: str
    workspace: str
    profile: str = ""
    engine: str = ""
    model: str = ""
    mode: str = ""
    checks: tuple[str, ...] = ()
    max_cost_usd: float | None = None
    max_iterations: Number | None = None
    notify: tuple[str, ...] = ()


class Order(Taken, frozen=True, kw_only=True):
    order: Literal["pause", "stop"]


class PairOffer(Taken, frozen=True, kw_only=True):
    """With the `address` of the server, as the device calls it, there is a picture of the link."""

    role: Role = "watch"
    name: str = ""
    address: str = ""


class DeviceNamed(Taken, frozen=True, kw_only=True):
    name: str


class PairCode(msgspec.Struct, frozen=True, kw_only=True):
    """`squares` is a QR code of the link, a text of 0 and 1 for each row; `fingerprint` that of the server's
    certificate."""

    code: str
    role: Role
    squares: tuple[str, ...] = ()
    fingerprint: str = ""


class Started(msgspec.Struct, frozen=True, kw_only=True):
    session: str


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Events as the stream has them; `last_seq` is the number of the newest that there is."""

    events: list[msgspec.Raw]
    last_seq: int


class DeviceRow(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    role: Role
    paired_us: int


class About(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and of whom."""

    name: str
    role: Role
    version: str
