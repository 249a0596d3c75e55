"""A workspace, and git in it."""

from tests.workspace.conftest import git, root

__all__ = ["git", "root"]
