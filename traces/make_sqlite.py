"""A small database load: 300 durable transactions on SQLite, half with a rollback journal, half with a write-ahead log.

Run as `python3 make_sqlite.py DIRECTORY`; the same statements in the same order at every run, on an empty database.
"""

import pathlib
import sqlite3
import sys

TRANSACTIONS = 150  # in each journal mode
ROWS = 4  # inserted in each transaction
TEXT = 180  # bytes of text in a row


def load(path: pathlib.Path, mode: str) -> None:
    """Create a table, then insert, update, read and delete rows in transactions that each end with an fsync."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute(f"PRAGMA journal_mode = {mode}")
    database.execute("PRAGMA synchronous = FULL")
    database.execute(f"CREATE TABLE {mode}_events (id INTEGER PRIMARY KEY, kind INTEGER, text TEXT)")
    database.execute(f"CREATE INDEX {mode}_kinds ON {mode}_events (kind)")
    for number in range(TRANSACTIONS):
        transaction(database, f"{mode}_events", number)
    database.close()


def transaction(database: sqlite3.Connection, table: str, number: int) -> None:
    """Insert ROWS rows; every fifth time update an old one, every tenth time delete one and read a range."""
    database.execute("BEGIN IMMEDIATE")
    for row in range(number * ROWS, (number + 1) * ROWS):
        text = f"{row * 2654435761 % 2**32:08x}" * (TEXT // 8)  # varied, but the same at every run
        database.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", (row, row % 17, text))
    if number % 5 == 4:
        database.execute(f"UPDATE {table} SET text = lower(text) || '.' WHERE id = ?", (number * ROWS // 2,))
    if number % 10 == 9:
        database.execute(f"DELETE FROM {table} WHERE id = ?", (number * ROWS // 3,))
        database.execute(f"SELECT count(*) FROM {table} WHERE kind = ?", (number % 17,)).fetchone()
    database.execute("COMMIT")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: make_sqlite.py DIRECTORY (made if missing)")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "load.db"
    if path.exists():
        sys.exit(f"{path} exists; give an empty directory, so that every run does the same")
    load(path, "DELETE")
    load(path, "WAL")


if __name__ == "__main__":
    main()
