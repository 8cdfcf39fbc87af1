-- Whose task it is, in a service, and the session that it belongs to: what a list of tasks is narrowed to.
ALTER TABLE task ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
ALTER TABLE task ADD COLUMN session TEXT NOT NULL DEFAULT '';
CREATE INDEX task_tenant ON task (tenant, id);
CREATE INDEX task_tenant_status ON task (tenant, status, id);
CREATE INDEX task_session ON task (session, tenant, id, status) WHERE session <> '';

-- A fork is whose the other one is, whatever release has made it.
CREATE TRIGGER fork_of_tenant AFTER INSERT ON task WHEN NEW.parent IS NOT NULL
BEGIN
    UPDATE task SET (tenant, session) = (SELECT tenant, session FROM task WHERE id = NEW.parent) WHERE id = NEW.id;
END;
