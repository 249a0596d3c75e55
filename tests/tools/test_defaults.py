"""What every request carries: the tools by default, and how much they weigh."""

from pathlib import Path

import msgspec

from bench.tokens import standard_tools
from mainspring.app.build import DEFAULT_TOOLS
from mainspring.context.prompt import context_message, prompt_parts, system_prompt
from mainspring.models import actions
from mainspring.tools.small import SMALL_TOOLS
from mainspring.tools.toolbox import Toolbox

CHARACTERS_PER_TOKEN = 4.07
"""As `python -m bench tokens` counts them with a real tokenizer."""


def test_the_base_prompt_stays_small():
    parts = prompt_parts(workspace=Path("/home/somebody/projects/something"), mode="auto")
    tools = msgspec.json.encode(Toolbox(standard_tools()).specs).decode()
    whole = system_prompt(parts) + context_message(parts) + tools
    assert len(whole) / CHARACTERS_PER_TOKEN < 2000


def test_a_small_model_starts_with_a_third_of_that_in_either_form():
    parts = prompt_parts(workspace=Path("/home/somebody/projects/something"), mode="auto", profile="small")
    specs = Toolbox(SMALL_TOOLS).specs
    assert len(specs) <= 6
    native = system_prompt(parts) + context_message(parts) + msgspec.json.encode(specs).decode()
    told = actions.described(system_prompt(parts), specs) + context_message(parts)
    for whole in (native, told):
        assert len(whole) / CHARACTERS_PER_TOKEN < 700


def test_there_are_at_most_fifteen_tools():
    assert len(DEFAULT_TOOLS) <= 15
