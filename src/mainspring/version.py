"""The version of the installed package. Its one place is `pyproject.toml`; installing writes it down in the
name of a folder. Reading that name takes a fraction of a millisecond, `importlib.metadata` more than ten.
"""

import os
import sys
from functools import cache

_PREFIX, _SUFFIX = "mainspring-", ".dist-info"


@cache
def installed_version() -> str:
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue  # a path that is not there, or a zip file
        for name in names:
            if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
                return name[len(_PREFIX) : -len(_SUFFIX)]
    return "0+not.installed"
