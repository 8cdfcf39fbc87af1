-- Whose task it is, in a service, and the session that it belongs to: what a list of tasks is narrowed to.
ALTER TABLE task
    ADD COLUMN tenant  text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN session text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX task_tenant ON task (tenant, id);
CREATE INDEX task_tenant_status ON task (tenant, status, id);
CREATE INDEX task_session ON task (session, tenant, id, status) WHERE session <> '';

-- A fork is whose the other one is, whatever release has made it.
CREATE FUNCTION of_one_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    SELECT tenant, session INTO NEW.tenant, NEW.session FROM task WHERE id = NEW.parent;
    RETURN NEW;
END;
$$;
CREATE TRIGGER fork_of_tenant BEFORE INSERT ON task
    FOR EACH ROW WHEN (NEW.parent IS NOT NULL) EXECUTE FUNCTION of_one_tenant();
