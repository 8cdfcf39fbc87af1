-- The API keys of a service: of each secret its digest alone. One that is revoked stays, so that it is known what it was.
CREATE TABLE api_key (
    id        text COLLATE "C" PRIMARY KEY,
    tenant    text COLLATE "C" NOT NULL,
    name      text COLLATE "C" NOT NULL,
    digest    text COLLATE "C" NOT NULL,    -- SHA-256, as hex
    scopes    text NOT NULL,                -- with spaces between
    created   float8 NOT NULL,
    expires   float8,
    revoked   float8,
    last_used float8                        -- not to the second
);
CREATE UNIQUE INDEX api_key_name ON api_key (tenant, name) WHERE revoked IS NULL;

-- What a tenant may use that has limits of its own, as JSON.
CREATE TABLE tenant (
    tenant text COLLATE "C" PRIMARY KEY,
    limits text NOT NULL
);
