"""Reads a file in numbered pages: text in any usual encoding, documents and notebooks as text, images as
media, and what an earlier call had to leave out.
"""

from importlib import import_module
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.context.stubs import EVENT
from mainspring.errors import JournalDamaged, UsageError
from mainspring.events import Media
from mainspring.formats import kind_of
from mainspring.sandbox.files import Content
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.bounds import HANDLE
from mainspring.tools.files import described, look_at
from mainspring.tools.schema import Arguments
from mainspring.tools.text import decode, lines_of

_HANDLES = (HANDLE, EVENT)
_MAX_LINE = 2000
_MAX_PAGE = 48_000
_MAX_IMAGE_BYTES = 5 * 1024 * 1024
_MARK_ROOM = 200
_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class ReadArguments(Arguments, frozen=True):
    path: str
    offset: Annotated[int, Meta(ge=1, description="First line, from 1")] = 1
    limit: Annotated[int, Meta(ge=1, le=5000)] = 1000
    again: Annotated[bool, Meta(description="Also if unchanged")] = False


async def _run(arguments: ReadArguments, place: CallContext) -> Output:
    path = arguments.path
    is_kept = path.startswith(_HANDLES)
    content = None if is_kept else await look_at(place, path)
    data = content.data if content else await _kept(place, path)
    is_known = content is not None and (content.path in place.seen or place.seen.is_partial)
    if content is not None:
        place.seen.add(content.path, content.version)
    if media_type := image_type(data):
        return await _image(place, path, data, media_type)
    text = place.hide(await _text(place, path, data))  # before it is cut: half a key is not known as one
    room = min(_MAX_PAGE, place.room - _MARK_ROOM)
    shown = page(text, arguments.offset, arguments.limit, room=room)
    told = (
        await _unchanged(place, path, content, shown) if content and is_known and not arguments.again else ""
    )
    return Output(text=told or shown)


async def _unchanged(place: CallContext, path: str, content: Content, shown: str) -> str:
    """What to say instead when the model has these lines before it already."""
    reread = import_module("mainspring.tools.reread")
    is_same = reread.is_file(place.files.resolve, content.path)
    return reread.unchanged(shown, content.data, path, await place.earlier(), is_same=is_same)


async def _kept(place: CallContext, path: str) -> bytes:
    try:
        return await place.kept(path.removeprefix(HANDLE))
    except (JournalDamaged, UsageError) as error:
        raise ToolFailed(f"Nothing is kept under {path}: {error.message}") from error


def image_type(data: bytes) -> str:
    """The media type of an image that models accept, by its first bytes; empty for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for mark, kind in _IMAGES if data.startswith(mark)), "")


async def _image(place: CallContext, path: str, data: bytes, media_type: str) -> Output:
    if len(data) > _MAX_IMAGE_BYTES:
        limit = _MAX_IMAGE_BYTES // 1024 // 1024
        raise ToolFailed(
            f"{path} is an image of {len(data):,} bytes; at most {limit} MiB can be shown."
            " Make a smaller copy with a command."
        )
    blob = await place.keep(data, media_type)
    text = f"{path} is an image ({media_type}, {len(data):,} bytes); it is attached."
    return Output(text=text, media=(Media(blob=blob, name=Path(path).name),))


async def _text(place: CallContext, path: str, data: bytes) -> str:
    if kind := kind_of(data):
        documents = import_module("mainspring.tools.documents")  # loads what confines their reader
        text: str = await documents.document_text(place, path, data, kind)
        return text
    decoded = decode(data)
    if decoded is None:
        raise ToolFailed(f"{path} is a binary file of {len(data):,} bytes and has no text to show.")
    if path.endswith(".ipynb"):
        return import_module("mainspring.tools.notebook").notebook_text(decoded.text) or decoded.text
    return decoded.text


def page(text: str, offset: int, limit: int, *, room: int = _MAX_PAGE) -> str:
    """Lines with their numbers, and a last line that says what was left out."""
    lines = lines_of(text)
    if not lines:
        return "(the file is empty)"
    if offset > len(lines):
        raise ToolFailed(f"The file has {len(lines)} lines; line {offset} is past its end.")
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
        cut = f"{line[:_MAX_LINE]}… ({len(line):,} characters)" if len(line) > _MAX_LINE else line
        size += len(cut) + 8
        if size > room and shown:
            break
        shown.append(f"{number:>6}\t{cut}")
    last = offset + len(shown) - 1
    if last < len(lines):
        shown.append(f"({len(lines) - last} more lines; go on with offset {last + 1})")
    return "\n".join(shown)


TOOL = Tool(
    name="read",
    description=described(Path(__file__)),
    arguments=ReadArguments,
    effect="read",
    paths=lambda arguments: () if arguments.path.startswith(_HANDLES) else (arguments.path,),
    run=_run,
)
