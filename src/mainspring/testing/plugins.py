"""What every plugin must keep to, for its own tests."""

from __future__ import annotations

from mainspring.app.toolset import DEFAULT_TOOLS
from mainspring.plugins import Plugin
from mainspring.plugins.loading import plugin_problem


def check_plugin(plugin: Plugin) -> None:
    """Fails with the sentence that a person would read when mainspring does not use the plugin."""
    problem = plugin_problem(plugin, {tool.name for tool in DEFAULT_TOOLS})
    assert not problem, problem
