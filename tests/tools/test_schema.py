"""`@tool`: a typed async function becomes a tool, and what does not fit it is told by field."""

import asyncio
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta

import mainspring
from mainspring.errors import UsageError
from mainspring.tools import CallContext, Output
from mainspring.tools.edit import TOOL as EDIT
from mainspring.tools.schema import decode_arguments, spec_of, tool
from tests.tools.workshop import Workshop


@tool
async def weather(
    city: Annotated[str, "Where to look"],
    days: Annotated[int, Meta(ge=1, le=7), "How many"] = 1,
    *,
    units: Literal["C", "F"] = "C",
    tags: list[str] = ["a"],  # noqa: B006
) -> str:
    """Tells the weather."""
    return f"{city} {days} {units} {tags}"


@mainspring.tool(effect="read")
async def where(place: CallContext) -> Output:
    """Tells the workspace."""
    return Output(text=str(place.workspace))


def test_the_signature_is_the_schema():
    spec = spec_of(weather)
    assert (spec.name, spec.description, weather.effect) == ("weather", "Tells the weather.", "execute")
    assert spec.parameters == {
        "properties": {
            "city": {"type": "string", "description": "Where to look"},
            "days": {"type": "integer", "maximum": 7, "description": "How many", "default": 1},
            "units": {"enum": ["C", "F"], "default": "C"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["city"],
        "type": "object",
    }


def test_what_a_schema_does_not_say_is_checked_all_the_same():
    assert "days" in str(decode_arguments(weather, '{"city":"Ulm","days":0}'))
    assert "weeks" in str(decode_arguments(weather, '{"city":"Ulm","weeks":1}'))


def test_a_tool_with_arguments_of_its_own_is_made_too(tmp_path):
    assert where.effect == "read"
    assert spec_of(where).parameters["properties"] == {}
    shop = Workshop(tmp_path, where, weather)
    assert shop.text("where") == str(shop.folder)
    assert shop.text("weather", city="Ulm", days=2) == "Ulm 2 C ['a']"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("{}", "missing required field `city`"),
        ('{"city": 1}', "city: expected `str`, got `int`"),
        ('{"city": "x", "days": 9}', "days: expected `int` <= 7"),
        ('{"city": "x", "days": "two"}', "days: expected `int`, got `str`"),
        ('{"city": "x", "tags": ["a", 1]}', "tags[1]: expected `str`, got `int`"),
        ('{"city": "x", "units": "K"}', "units: invalid enum value 'K'; it must be one of: C, F"),
        ('{"city": "x", "when": 1}', "unknown field `when`"),
        ("[]", "must be a JSON object, not an array"),
        ("{", "not valid JSON"),
    ],
)
def test_what_does_not_fit_is_told_by_field(arguments, words):
    said = decode_arguments(weather, arguments)
    assert isinstance(said, str)
    assert words in said


@pytest.mark.parametrize(
    "arguments",
    [
        '{"city": "x", "days": "2", "tags": "[\\"a\\", \\"b\\"]"}',
        '{"city": "x", "days": "2", "tags": ["a", "b"]}',
        '"{\\"city\\": \\"x\\", \\"days\\": 2, \\"tags\\": [\\"a\\", \\"b\\"]}"',
    ],
)
def test_numbers_and_lists_in_the_form_of_a_text_are_taken_as_meant(arguments):
    decoded = decode_arguments(weather, arguments)
    assert not isinstance(decoded, str)
    assert msgspec.to_builtins(decoded) | {"units": ""} == {
        "city": "x",
        "days": 2,
        "tags": ["a", "b"],
        "units": "",
    }


class Point:
    """Quacks like a pydantic model."""

    def __init__(self, x):
        self.x = x

    @classmethod
    def model_json_schema(cls):
        inner = {"title": "Number", "type": "integer"}
        return {"type": "object", "properties": {"x": {"$ref": "#/$defs/Number"}}, "$defs": {"Number": inner}}

    @classmethod
    def model_validate(cls, value):
        if not isinstance(value.get("x"), int):
            raise ValueError("x must be a number")
        return cls(value["x"])


@tool
async def move(to: Point) -> str:
    """Moves."""
    return f"moved to {to.x}"


def test_models_that_validate_themselves_are_accepted(tmp_path):
    expected = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert spec_of(move).parameters["properties"]["to"] == expected
    shop = Workshop(tmp_path, move)
    assert shop.text("move", to={"x": 3}) == "moved to 3"
    assert "to: x must be a number" in shop.error("move", to={"x": "y"})


def test_a_default_is_not_shared_between_calls(tmp_path):
    @tool
    async def grow(items: list[int] = [1]) -> str:  # noqa: B006
        """Grows."""
        items.append(2)
        return str(items)

    shop = Workshop(tmp_path, grow)
    assert shop.text("grow") == shop.text("grow") == "[1, 2]"


async def untyped(x):
    """Has no type."""


async def many(*x: int):
    """Has no names."""


async def silent(x: int):
    pass


def sync(x: int):
    """Is not async."""


async def strange(x: asyncio.Lock):
    """Takes what without a JSON schema."""


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (untyped, "needs a type"),
        (many, "each needs a name"),
        (silent, "needs a docstring"),
        (sync, "must be an async function"),
        (strange, "without a JSON schema"),
    ],
)
def test_a_function_that_cannot_be_a_tool_says_why(function, words):
    with pytest.raises(UsageError, match=words):
        tool(function)


def test_what_does_not_fit_inside_a_list_is_told_with_the_fields_there():
    words = decode_arguments(EDIT, '{"path": "a", "edits": [{"find": "x", "new": "y"}]}')
    assert "edits[0]: object contains unknown field `find`; fields there are: old, new, every." in str(words)


def test_arguments_of_a_call_may_be_left_empty():
    assert isinstance(decode_arguments(where, ""), msgspec.Struct)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"path": "a.py", "old": "x", "new": "y"}',
        '{"path": "a.py", "edits": {"old": "x", "new": "y"}}',
        '{"path": "a.py", "edits": "[{\\"old\\": \\"x\\", \\"new\\": \\"y\\"}]"}',
    ],
)
def test_the_only_item_of_a_list_may_stand_beside_it_or_in_its_place(arguments):
    decoded = decode_arguments(EDIT, arguments)
    assert not isinstance(decoded, str)
    assert msgspec.to_builtins(decoded)["edits"] == ({"old": "x", "new": "y", "every": False},)


def test_fields_that_no_item_has_are_told():
    said = decode_arguments(EDIT, '{"path": "a.py", "old": "x", "gnu": "y"}')
    assert "unknown field `old`. Its fields are: path, edits" in str(said)
