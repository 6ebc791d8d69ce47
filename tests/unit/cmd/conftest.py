import logging

import pytest


@pytest.fixture(autouse=True)
def root_logger():
    """Commands set up logging for their process; tests have theirs back afterwards."""
    logger = logging.getLogger()
    handlers, level, factory = list(logger.handlers), logger.level, logging.getLogRecordFactory()
    yield
    logging.setLogRecordFactory(factory)
    logger.handlers[:], logger.level = handlers, level
