"""The host of a name, as the settings have it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from mainspring.errors import UsageError
from mainspring.jobs import JobHost
from mainspring.jobs.hub import HubJobs
from mainspring.jobs.remote import RemoteJobs
from mainspring.jobs.settings import JobHostSettings
from mainspring.jobs.shells import HostShell
from mainspring.sandbox import Sandbox


def open_host(
    settings: JobHostSettings, environment: Mapping[str, str], outside: Callable[[], Awaitable[Sandbox]]
) -> JobHost:
    """Nothing is asked of it yet; `UsageError` says what its settings lack."""
    if settings.kind == "hub":
        return HubJobs(settings, environment)
    if settings.kind == "ssh" and not settings.host:
        raise UsageError("There is no machine to reach over ssh.", remedy="Set `host` of [jobs.NAME].")
    return RemoteJobs(
        settings.kind, HostShell(outside, environment, settings.host, settings.ssh_options), settings
    )
