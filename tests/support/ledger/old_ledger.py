"""A ledger as the first release wrote it."""

import sqlite3
from contextlib import closing

SCHEMA_1 = """
BEGIN;
PRAGMA application_id = 1651864179;
PRAGMA user_version = 1;
CREATE TABLE states (
  volume_id TEXT PRIMARY KEY, revision INTEGER NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE entries (
  id INTEGER PRIMARY KEY, volume_id TEXT NOT NULL, revision INTEGER NOT NULL, kind TEXT NOT NULL,
  about TEXT NOT NULL, at_s INTEGER NOT NULL, body TEXT NOT NULL,
  UNIQUE (volume_id, revision, kind, about)
);
CREATE TABLE deliveries (
  id INTEGER PRIMARY KEY, channel TEXT NOT NULL, alert_id TEXT NOT NULL, volume_id TEXT,
  revision INTEGER NOT NULL, time_s INTEGER NOT NULL, document TEXT NOT NULL, sent_as TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0, claimed_by TEXT, claimed_until_s REAL, last_error TEXT,
  UNIQUE (channel, alert_id)
);
CREATE INDEX deliveries_by_message ON deliveries (channel, sent_as);
CREATE TABLE channels (name TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE origin (name TEXT NOT NULL);
CREATE TABLE completed_ticks (
  kind TEXT PRIMARY KEY, tick_s INTEGER NOT NULL, fingerprints BLOB
) WITHOUT ROWID;
CREATE TABLE claimed_ticks (
  kind TEXT NOT NULL, tick_s INTEGER NOT NULL, claimed_until_s REAL NOT NULL,
  PRIMARY KEY (kind, tick_s)
) WITHOUT ROWID;
COMMIT;
PRAGMA journal_mode = WAL;
INSERT INTO states VALUES ('vol-0a', 100, '{"volume_id":"vol-0a","revision":100,"level":"warning",
  "level_since_s":90,"alerted_level":"warning","alerted_at_s":100,"gap_alerted":false,"balance_pct":31.5}');
INSERT INTO entries (volume_id, revision, kind, about, at_s, body)
  VALUES ('vol-0a', 100, 'level_changed', '', 100, '{"from":"ok","to":"warning"}');
INSERT INTO channels VALUES ('mail');
INSERT INTO origin VALUES ('account 1 in us-east-1');
INSERT INTO completed_ticks VALUES ('sweep', 300, x'0100000000000000');
"""


def an_old_ledger(path):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(SCHEMA_1)
    return path
