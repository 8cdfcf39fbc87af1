-- The API keys of a service: of each secret its digest alone. One that is revoked stays, so that it is known what it was.
CREATE TABLE api_key (
    id        TEXT PRIMARY KEY,
    tenant    TEXT NOT NULL,
    name      TEXT NOT NULL,
    digest    TEXT NOT NULL,                -- SHA-256, as hex
    scopes    TEXT NOT NULL,                -- with spaces between
    created   REAL NOT NULL,
    expires   REAL,
    revoked   REAL,
    last_used REAL                          -- not to the second
) WITHOUT ROWID;
CREATE UNIQUE INDEX api_key_name ON api_key (tenant, name) WHERE revoked IS NULL;

-- What a tenant may use that has limits of its own, as JSON.
CREATE TABLE tenant (
    tenant TEXT PRIMARY KEY,
    limits TEXT NOT NULL
) WITHOUT ROWID;
