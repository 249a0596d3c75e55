"""What happens when pages about source files are written: drafted in pieces, checked, judged. A page belongs
to one content of its file, named by the hash `source`."""

from typing import Literal

from mainspring.events.base import Event, JsonText, Sha256, Word
from mainspring.events.values import Origin, Value

PageForm = Literal["markdown", "site"]
"""How pages are written down: as Markdown, or as HTML with an index that needs nothing else."""

PageVerdict = Literal["approved", "rejected", "person", "again"]
"""What becomes of a draft: it is the page; it is not, and nobody tries again until the file changes; a person
must decide; or another draft follows."""


class PageScore(Value, frozen=True):
    """How good a model finds a draft in one respect, from 1 to 5."""

    name: Word
    score: int


class DocsStarted(Event, frozen=True):
    """Pages about so many `files` are about to be drafted for the folder `output`; money and tokens of the
    run are counted from here. Of the files in `left_out` nothing is sent; each is named with the reason."""

    output: str
    form: PageForm = "markdown"
    files: int = 0
    left_out: tuple[str, ...] = ()
    origin: Origin | None = None


class PieceDrafted(Event, frozen=True):
    """What a model said of these lines of a file, as JSON; it is not asked again for the same content. With a
    `problem` it said nothing that could be used."""

    path: str
    source: Sha256
    first_line: int
    last_line: int
    notes: JsonText = ""
    problem: str = ""


class PageDrafted(Event, frozen=True):
    """A draft, whole, as JSON. `problems` are what checks found wrong with it: then nobody judges it.
    `dropped` is what was taken out of it because it did not hold."""

    path: str
    source: Sha256
    attempt: int
    page: JsonText = ""
    problems: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()


class PageJudged(Event, frozen=True):
    """What becomes of the newest draft of a file, who decided it, and why. `scores` are a
    model's. A person's `again` begins anew, without what was drafted before."""

    path: str
    source: Sha256
    verdict: PageVerdict
    by: Literal["checks", "model", "person"]
    attempt: int = 0
    why: str = ""
    scores: tuple[PageScore, ...] = ()
    origin: Origin | None = None


class DocsEnded(Event, frozen=True):
    """How many of the files of a run have which verdict now. `undone` have none, because the run was stopped;
    `why` says by what."""

    approved: int = 0
    rejected: int = 0
    person: int = 0
    undone: int = 0
    why: str = ""
