"""Guru Meditation Reports: what a process says of itself on SIGUSR2 (spec: wire-and-config 7.6).

Threads with their stacks, options, version, and at the end the requests in progress.
"""

from functools import partial
import os
from typing import Any

from oslo_config import cfg
from oslo_reports import guru_meditation_report
from oslo_reports.generators import conf as generators

from scheduler import errors
from scheduler.logs import mask_credentials
from scheduler.version import DISTRIBUTION, ReportVersion


def install(conf: cfg.ConfigOpts) -> Any:
    """Write a report on SIGUSR2, or when the file of [oslo_reports]/file_event_handler is touched.

    To be called in the main thread of each process: a watcher of the file does not survive a fork.

    Returns:
        The class of the report, to add sections to.

    Raises:
        ConfigError: The file does not exist.
    """

    class Report(guru_meditation_report.TextGuruMeditation):
        def add_section(self, heading: Any, generator: Any, index: int | None = None) -> None:
            # oslo.reports shows the global options, which are empty here
            if isinstance(generator, generators.ConfigReportGenerator):
                generator = partial(_options, conf)
            super().add_section(heading, generator, index)

    # A file's name ends with the second: without the pid, reports made at once would overwrite each other
    name = f"{DISTRIBUTION}-{os.getpid()}"
    try:
        Report.setup_autorun(ReportVersion(), service_name=name, conf=conf)
    except OSError as error:
        raise errors.ConfigError(f"[oslo_reports]/file_event_handler: {error}") from error
    return Report


def _options(conf: cfg.ConfigOpts) -> Any:
    """Return the options without secrets; not all URLs with passwords are options marked as secret."""
    model = generators.ConfigReportGenerator(conf)()
    for group in model.values():
        group.update(
            {name: mask_credentials(value) for name, value in group.items() if isinstance(value, str)}
        )
    return model
