-- How tools have done so far: counts that only add up, see core/tool_stats.py.
CREATE TABLE tool_stats (
    source  TEXT NOT NULL,
    tool_id TEXT NOT NULL,
    data    TEXT NOT NULL,
    updated REAL NOT NULL,
    PRIMARY KEY (source, tool_id)
) WITHOUT ROWID;

-- The names that each source listed last, so that ids are the same when one of the sources is down.
CREATE TABLE tool_names (
    source  TEXT NOT NULL PRIMARY KEY,
    names   TEXT NOT NULL,
    updated REAL NOT NULL
) WITHOUT ROWID;
