"""Connections to the database."""

from __future__ import annotations

from typing import Any

import psycopg2
import psycopg2.extensions


Connection = psycopg2.extensions.connection


def connect(**where: Any) -> Connection:
    """Return a new connection in which every statement commits by itself."""
    connection: Connection = psycopg2.connect(**where)
    connection.autocommit = True
    return connection
