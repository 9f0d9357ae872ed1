"""Runs are made as those that are compared."""

from tests.comparing.conftest import run

__all__ = ["run"]
