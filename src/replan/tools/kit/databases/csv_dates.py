"""Dates in CSV files: a column is read as dates only where what is written leaves one reading. Imported with DuckDB.

DuckDB guesses: `10.02.26` is the 26th of February 2010 to it, and `02/10/2026` the 2nd of October. What may as well be something else
stays a text, as it is written, for whoever asks to read (`strptime`).
"""

from __future__ import annotations

import contextlib

import duckdb

_PLAIN = {"dateformat": "%Y-%m-%d", "timestampformat": "%Y-%m-%d %H:%M:%S"}
"""What is looked for in place of a form that leaves more than one reading."""
_KINDS = {"dateformat": "DATE", "timestampformat": "TIMESTAMP"}


def date_options(connection: duckdb.DuckDBPyConnection, file: str) -> str:
    """What the reader of the file, which is written as SQL writes it, has to be told; empty where its own guess leaves no doubt."""
    with contextlib.suppress(duckdb.Error):  # which reading the file says better
        query = f"SELECT Columns, HasHeader, DateFormat, TimestampFormat FROM sniff_csv({file})"
        columns, header, *forms = connection.execute(query).fetchone() or ((), False, None, None)
        told = []
        for (option, plain), form in zip(_PLAIN.items(), forms, strict=True):
            names = [one["name"] for one in columns if one["type"] == _KINDS[option]]
            if form and names and _is_doubtful(connection, file, form, names, header=header):
                told.append(f", {option} = '{plain}'")
        return "".join(told)
    return ""


def _is_doubtful(
    connection: duckdb.DuckDBPyConnection, file: str, form: str, names: list[str], *, header: bool
) -> bool:
    """True if the columns may be read otherwise than in this form."""
    if "%y" in form:  # a year of two digits may be a day, and which century it is of nobody says
        return True
    if form.startswith(("%Y", "%d.%m.%Y")):  # between points the day is always first
        return False
    if "%d" not in form or "%m" not in form:
        return False
    other = form.replace("%d", "%?").replace("%m", "%d").replace("%?", "%m")
    columns = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names]
    is_not = " OR ".join(f"({one} IS NOT NULL AND try_strptime({one}, '{other}') IS NULL)" for one in columns)
    reads = f"read_csv_auto({file}, all_varchar = true, header = {str(header).lower()})"
    return connection.execute(f"SELECT 1 FROM {reads} WHERE {is_not} LIMIT 1").fetchone() is None
