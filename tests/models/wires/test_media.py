"""An attachment that cannot be sent is left out, told to model and user, and the session goes on."""

from pathlib import Path

import pytest

from mainspring.events import MediaLeftOut
from mainspring.models import Attachment
from mainspring.models.attachments import LIMITS, media_problem, sendable
from mainspring.models.scripted import Fault, ScriptedReply
from tests.models.every_wire import PNG, WIRES, Wired

BROKEN = {
    "half a png": ("image/png", PNG[:-10]),
    "a few bytes": ("image/png", b"\x89PNG"),
    "text": ("image/png", b"not a picture"),
    "half a jpeg": ("image/jpeg", b"\xff\xd8\xff\xe0" + b"x" * 500),
    "half a webp": ("image/webp", b"RIFF\xff\x00\x00\x00WEBPVP8 "),
    "half a gif": ("image/gif", b"GIF89a\x01\x00\x01\x00"),
    "an empty file": ("image/png", b""),
    "no pdf": ("application/pdf", b"hello"),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken_is_replaced_by_a_line_that_says_so(case: str, wire: str) -> None:
    kind, data = BROKEN[case]
    sent = sendable(Attachment(kind, data, "plot.png"), LIMITS[wire])
    assert sent.media_type == "text/plain"
    assert sent.data.startswith(b"[plot.png is left out: it is not ")


@pytest.mark.parametrize("wire", WIRES)
def test_each_wire_takes_what_it_takes(wire: str) -> None:
    limits = LIMITS[wire]
    assert media_problem(Attachment("image/png", PNG), limits) == ""
    assert media_problem(Attachment("application/pdf", b"%PDF"), limits) == ""
    assert media_problem(Attachment("text/plain", b"x"), limits) == ""
    assert "MB" in media_problem(
        Attachment("image/png", PNG[:40] + b"x" * limits.image_bytes + PNG[40:]), limits
    )
    assert sendable(Attachment("image/jpeg", PNG), limits).media_type == "image/png", "as it really is"


def test_seven_megabytes_are_too_much_for_claude_and_not_for_others() -> None:
    large = Attachment("image/png", PNG[:40] + bytes(7 * 1024 * 1024) + PNG[40:])
    assert [wire for wire in WIRES if media_problem(large, LIMITS[wire])] == ["anthropic"]
    wide = Attachment("image/png", PNG[:16] + b"\x00\x00\x4e\x20" + PNG[20:])
    assert [wire for wire in WIRES if media_problem(wide, LIMITS[wire])] == ["anthropic"]


@pytest.mark.parametrize("wire", WIRES)
def test_a_broken_image_does_not_fail_this_turn_or_the_next(wire: str, tmp_path: Path) -> None:
    stage = Wired(tmp_path, ScriptedReply("so"), ScriptedReply("again"), ScriptedReply("more"))
    (stage.workspace / "plot.png").write_bytes(PNG[:-10])
    events = stage.run(wire, "look", attach="plot.png")
    (left_out,) = [event for event in events if isinstance(event, MediaLeftOut)]
    assert (left_out.names, left_out.is_refused) == (("plot.png",), False)
    assert "plot.png is left out" in stage.seen[0].body.decode()
    events = stage.run(wire, "and?")
    assert events[-1].ending == "done"
    assert not [event for event in events if isinstance(event, MediaLeftOut)], "told once"


REFUSALS = {
    "anthropic": "messages.0.content.0.image.source.base64.data: Could not process image",
    "chat": "You uploaded an unsupported image. Please make sure your image is valid.",
    "responses": "The image data you provided does not represent a valid image: invalid image.",
    "gemini": "Unable to process input image. Please retry or report in our issue tracker.",
}


@pytest.mark.parametrize("wire", WIRES)
def test_an_image_that_is_refused_is_left_out_from_then_on(wire: str, tmp_path: Path) -> None:
    refusal = Fault(kind="status", status=400, body={"error": {"message": REFUSALS[wire]}})
    stage = Wired(
        tmp_path, ScriptedReply("so"), ScriptedReply("again"), ScriptedReply("more"), faults=[refusal]
    )
    (stage.workspace / "plot.png").write_bytes(PNG)
    events = stage.run(wire, "look", attach="plot.png")
    (left_out,) = [event for event in events if isinstance(event, MediaLeftOut)]
    assert left_out.is_refused
    assert events[-1].ending == "done"
    assert [seen.fault for seen in stage.seen] == ["status", ""]
    assert "plot.png is left out" in stage.seen[1].body.decode()
    stage.script = Wired.without_faults(stage.script)
    for other in WIRES:
        assert stage.run(other, "and?")[-1].ending == "done"
        assert "plot.png is left out" in stage.seen[0].body.decode()


UNCLEAR = {
    "a server that takes text": {"error": {"message": "Unknown content part type: image_url"}},
    "deepseek": {"error": {"message": "messages[1]: unknown variant `image_url`, expected `text` at line 1"}},
    "fields": {
        "detail": [
            {
                "type": "union_tag_invalid",
                "loc": ["body", "messages", 1, "content", 0],
                "msg": "Input tag 'image_url' found using 'type' does not match any of the expected tags: 'text'",
            }
        ]
    },
    "vllm": {"error": {"message": "m is not a multimodal model"}},
    "nothing": {},
}


@pytest.mark.parametrize("case", UNCLEAR)
def test_an_image_is_left_out_also_when_a_refusal_does_not_say_that_it_is_about_it(
    case: str, tmp_path: Path
) -> None:
    refusal = Fault(kind="status", status=400, body=UNCLEAR[case])
    stage = Wired(tmp_path, ScriptedReply("so"), faults=[refusal])
    (stage.workspace / "plot.png").write_bytes(PNG)
    events = stage.run("chat", "look", attach="plot.png")
    (left_out,) = [event for event in events if isinstance(event, MediaLeftOut)]
    assert (left_out.names, left_out.is_refused) == (("plot.png",), True)
    assert events[-1].ending == "done"
    said = [message["content"] for message in stage.seen[-1].json()["messages"]]
    assert all(isinstance(each, str) for each in said), "who takes only text wants it as one"
    assert "[plot.png is left out: " in str(said)


def test_an_image_with_which_a_request_is_too_large_is_left_out(tmp_path: Path) -> None:
    refusal = Fault(kind="status", status=413, body="<html>413 Request Entity Too Large</html>")
    stage = Wired(tmp_path, ScriptedReply("so"), faults=[refusal])
    (stage.workspace / "plot.png").write_bytes(PNG)
    events = stage.run("chat", "look", attach="plot.png")
    assert [event.names for event in events if isinstance(event, MediaLeftOut)] == [("plot.png",)]
    assert events[-1].ending == "done"


def test_an_image_that_was_sent_before_is_not_blamed_for_a_refusal_that_says_nothing(tmp_path: Path) -> None:
    refused = ScriptedReply("again", fault=Fault(kind="status", status=400, body={}))
    stage = Wired(tmp_path, ScriptedReply("so"), refused)
    (stage.workspace / "plot.png").write_bytes(PNG)
    assert stage.run("chat", "look", attach="plot.png")[-1].ending == "done"
    events = stage.run("chat", "and?")
    assert events[-1].ending == "failed"
    assert not [event for event in events if isinstance(event, MediaLeftOut)]


def test_a_refusal_without_an_attachment_ends_the_turn(tmp_path: Path) -> None:
    refusal = Fault(kind="status", status=400, body={"error": {"message": REFUSALS["chat"]}}, times=9)
    stage = Wired(tmp_path, ScriptedReply("so"), faults=[refusal])
    events = stage.run("chat", "look")
    assert events[-1].ending == "failed"
    assert len(stage.seen) == 1
