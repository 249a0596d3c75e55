"""The toolbox of the house, through the suite that outsiders use as well."""

import asyncio

import pytest

from mainspring.testing.toolboxes import CHECKS
from mainspring.tools.toolbox import Toolbox


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_toolbox_keeps_the_contract(check):
    asyncio.run(check(Toolbox))
