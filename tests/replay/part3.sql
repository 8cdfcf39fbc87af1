PRAGMA user_version = 2;
BEGIN TRANSACTION;
CREATE TABLE artifact (
    task        INTEGER NOT NULL REFERENCES task (id),
    artifact_id TEXT    NOT NULL,
    data        BLOB    NOT NULL,
    PRIMARY KEY (task, artifact_id)
);
CREATE TABLE event (
    task  INTEGER NOT NULL REFERENCES task (id),
    seq   INTEGER NOT NULL,
    ts    REAL    NOT NULL,
    round INTEGER NOT NULL,
    type  TEXT    NOT NULL,
    data  TEXT    NOT NULL,
    PRIMARY KEY (task, seq)
) WITHOUT ROWID;
INSERT INTO "event" VALUES(1,1,1.79592335680285954471e+09,0,'task_submitted','{"description":"Book two seats","metadata":{},"context":{},"policy":{"budget":{"task_timeout_secs":300.0,"max_llm_calls":null,"max_tokens":null,"max_cost_usd":null,"max_tool_calls":null,"max_rounds":null},"limits":{"max_steps":10000,"max_depth":10000,"max_fan_out":10000},"enable_step_level_reflection":true,"enable_auto_reflection":true,"older":{"max_step_retries":null,"max_single_step_repairs":null,"max_task_replanning_attempts":null,"consecutive_failure_threshold":null,"max_reflection_rounds":null},"interactive":false,"evaluation":"steps","approval":"never","success_threshold":80.0,"correctness_excellent":95.0,"enable_two_stage_planning":true,"two_stage_tool_threshold":10,"tool_selection_threshold":70.0,"max_plan_corrections":2,"enable_parallel_execution":true,"parallel_max_concurrent":8,"parallel_min_steps":2,"max_transient_retries":3,"max_output_bytes":262144,"enable_streaming":true,"output_schema":null},"plan":{"steps":[{"step_id":"a","tool":"book","parameters":{"seat":1}},{"step_id":"b","tool":"book","parameters":{"seat":2}},{"step_id":"c","tool":"send","parameters":{"ticket":"${a.output.ticket}"},"dependencies":["a"]},{"step_id":"d","tool":"send","parameters":{"ticket":"${b.output.ticket}"},"dependencies":["b","c"]}]},"tools":[],"settings":{"models":{"selection":"local","planning":"local","reflection":"local","evaluation":"local"}}}');
INSERT INTO "event" VALUES(1,2,1.79592335680864453317e+09,0,'task_started','{"driver":"process 29615"}');
INSERT INTO "event" VALUES(1,3,1.79592335680864453317e+09,1,'round_started','{"round":1}');
INSERT INTO "event" VALUES(1,4,1.79592335680864453317e+09,1,'plan_generated','{"plan":{"plan_id":"plan_01m8jnzb4jf4acf34prcf0732a","version":1,"task_description":"Book two seats","steps":[{"step_id":"a","name":"","tool":"book","parameters":{"seat":1},"dependencies":[],"expected_output":"","actions":[],"when":null,"for_each":null,"timeout_secs":null,"estimated_secs":null,"requires_approval":false,"repeat":false},{"step_id":"b","name":"","tool":"book","parameters":{"seat":2},"dependencies":[],"expected_output":"","actions":[],"when":null,"for_each":null,"timeout_secs":null,"estimated_secs":null,"requires_approval":false,"repeat":false},{"step_id":"c","name":"","tool":"send","parameters":{"ticket":"${a.output.ticket}"},"dependencies":["a"],"expected_output":"","actions":[],"when":null,"for_each":null,"timeout_secs":null,"estimated_secs":null,"requires_approval":false,"repeat":false},{"step_id":"d","name":"","tool":"send","parameters":{"ticket":"${b.output.ticket}"},"dependencies":["b","c"],"expected_output":"","actions":[],"when":null,"for_each":null,"timeout_secs":null,"estimated_secs":null,"requires_approval":false,"repeat":false}],"estimated_duration":null,"reasoning":""},"task_type":"default","workflow_id":null,"corrections":0,"notes":[]}');
INSERT INTO "event" VALUES(1,5,1.79592335680864453317e+09,1,'execution_mode','{"mode":"parallel","reason":"4 steps, up to 8 calls at a time"}');
INSERT INTO "event" VALUES(1,6,1.79592335680864453317e+09,1,'step_started','{"step_id":"a","items":null}');
INSERT INTO "event" VALUES(1,7,1.79592335680864453317e+09,1,'call_started','{"call_key":"2c22938aacdf511a1b57e93f2d54a34e.1","step_id":"a","action_id":null,"index":null,"attempt":1,"tool_id":"book","effect":"once","parameters":{"seat":1}}');
INSERT INTO "event" VALUES(1,8,1.79592335680864453317e+09,1,'step_started','{"step_id":"b","items":null}');
INSERT INTO "event" VALUES(1,9,1.79592335680864453317e+09,1,'call_started','{"call_key":"b6f03e806d60f269078821d4ed1df00f.1","step_id":"b","action_id":null,"index":null,"attempt":1,"tool_id":"book","effect":"once","parameters":{"seat":2}}');
INSERT INTO "event" VALUES(1,10,1.79592335682989072799e+09,1,'call_completed','{"call_key":"2c22938aacdf511a1b57e93f2d54a34e.1","step_id":"a","action_id":null,"index":null,"attempt":1,"tool_id":"book","output":{"seat":1,"ticket":"T1"},"artifact":null,"reused":false,"duration_secs":0.0001577339990035398}');
INSERT INTO "event" VALUES(1,11,1.79592335682989072799e+09,1,'step_completed','{"step_id":"a","metadata":{}}');
INSERT INTO "event" VALUES(1,12,1.79592335682989072799e+09,1,'step_started','{"step_id":"c","items":null}');
INSERT INTO "event" VALUES(1,13,1.79592335682989072799e+09,1,'call_started','{"call_key":"5d525b0a0106ddb9144763a555da86c5.1","step_id":"c","action_id":null,"index":null,"attempt":1,"tool_id":"send","effect":"repeatable","parameters":{"ticket":"T1"}}');
INSERT INTO "event" VALUES(1,14,1.79592335682989072799e+09,1,'call_completed','{"call_key":"b6f03e806d60f269078821d4ed1df00f.1","step_id":"b","action_id":null,"index":null,"attempt":1,"tool_id":"book","output":{"seat":2,"ticket":"T2"},"artifact":null,"reused":false,"duration_secs":0.0000370660000044154}');
INSERT INTO "event" VALUES(1,15,1.79592335682989072799e+09,1,'step_completed','{"step_id":"b","metadata":{}}');
INSERT INTO "event" VALUES(1,16,1.79592335684064054492e+09,1,'call_completed','{"call_key":"5d525b0a0106ddb9144763a555da86c5.1","step_id":"c","action_id":null,"index":null,"attempt":1,"tool_id":"send","output":"sent T1","artifact":null,"reused":false,"duration_secs":0.0001600579998921603}');
INSERT INTO "event" VALUES(1,17,1.79592335684064054492e+09,1,'step_completed','{"step_id":"c","metadata":{}}');
INSERT INTO "event" VALUES(1,18,1.79592335684064054492e+09,1,'step_started','{"step_id":"d","items":null}');
INSERT INTO "event" VALUES(1,19,1.79592335684064054492e+09,1,'call_started','{"call_key":"73af8badb18bcf995cddebcac6be9c6f.1","step_id":"d","action_id":null,"index":null,"attempt":1,"tool_id":"send","effect":"repeatable","parameters":{"ticket":"T2"}}');
INSERT INTO "event" VALUES(1,20,1.79592335684121632579e+09,1,'call_completed','{"call_key":"73af8badb18bcf995cddebcac6be9c6f.1","step_id":"d","action_id":null,"index":null,"attempt":1,"tool_id":"send","output":"sent T2","artifact":null,"reused":false,"duration_secs":0.000056524000683566555}');
INSERT INTO "event" VALUES(1,21,1.79592335684121632579e+09,1,'step_completed','{"step_id":"d","metadata":{}}');
INSERT INTO "event" VALUES(1,22,1795923356.84155,1,'evaluation_completed','{"evaluation":{"evaluation_id":"eval_01m8jnzb59fj2g8t4994xy93hc","overall_score":100.0,"is_successful":true,"dimensions":{"completeness":100.0,"correctness":100.0,"efficiency":100.0,"reliability":100.0},"successes":["a succeeded","b succeeded","c succeeded","d succeeded"],"failures":[],"improvement_suggestions":[],"final_output":"sent T2"},"artifact":null,"reason":"","by":"steps"}');
INSERT INTO "event" VALUES(1,23,1795923356.84155,1,'round_completed','{"round":1}');
INSERT INTO "event" VALUES(1,24,1795923356.84155,1,'task_completed','{"final_output":"sent T2","artifact":null,"score":100.0,"shortfall":[]}');
INSERT INTO "event" VALUES(2,1,1.79592335886685276029e+09,0,'task_submitted','{"description":"Book two seats","metadata":{},"context":{},"policy":{"budget":{"task_timeout_secs":300.0,"max_llm_calls":null,"max_tokens":null,"max_cost_usd":null,"max_tool_calls":null,"max_rounds":null},"limits":{"max_steps":10000,"max_depth":10000,"max_fan_out":10000},"enable_step_level_reflection":true,"enable_auto_reflection":true,"older":{"max_step_retries":null,"max_single_step_repairs":null,"max_task_replanning_attempts":null,"consecutive_failure_threshold":null,"max_reflection_rounds":null},"interactive":false,"evaluation":"steps","approval":"never","success_threshold":80.0,"correctness_excellent":95.0,"enable_two_stage_planning":true,"two_stage_tool_threshold":10,"tool_selection_threshold":70.0,"max_plan_corrections":2,"enable_parallel_execution":true,"parallel_max_concurrent":8,"parallel_min_steps":2,"max_transient_retries":3,"max_output_bytes":262144,"enable_streaming":true,"output_schema":null},"plan":{"steps":[{"step_id":"a","tool":"book","parameters":{"seat":1}},{"step_id":"b","tool":"book","parameters":{"seat":2}},{"step_id":"c","tool":"send","parameters":{"ticket":"${a.output.ticket}"},"dependencies":["a"]},{"step_id":"d","tool":"send","parameters":{"ticket":"${b.output.ticket}"},"dependencies":["b","c"]}]},"tools":[],"settings":{"models":{"selection":"local","planning":"local","reflection":"local","evaluation":"local"}}}');
INSERT INTO "event" VALUES(2,2,1.79592335887432837486e+09,0,'task_started','{"driver":"process 29625"}');
INSERT INTO "event" VALUES(2,3,1.79592335887432837486e+09,1,'round_started','{"round":1}');
INSERT INTO "event" VALUES(2,4,1.79592335887432837486e+09,1,'plan_generated','{"plan":{"plan_id":"plan_01m8jnzd5b6gjfsekdptdtv211","version":1,"task_description":"Book two seats","steps":[{"step_id":"a","name":"","tool":"book","parameters":{"seat":1},"dependencies":[],"expected_output":"","actions":[],"when":null,"for_each":null,"timeout_secs":null,"estimated_secs":null,"requires_approval":false,"repeat":false},{"step_id":"b","name":"","tool":"book","parameters":{"seat":2},"dependencies":[],"expected_output":"","actions":[],"when":null,"for_each":null,"timeout_secs":null,"estimated_secs":null,"requires_approval":false,"repeat":false},{"step_id":"c","name":"","tool":"send","parameters":{"ticket":"${a.output.ticket}"},"dependencies":["a"],"expected_output":"","actions":[],"when":null,"for_each":null,"timeout_secs":null,"estimated_secs":null,"requires_approval":false,"repeat":false},{"step_id":"d","name":"","tool":"send","parameters":{"ticket":"${b.output.ticket}"},"dependencies":["b","c"],"expected_output":"","actions":[],"when":null,"for_each":null,"timeout_secs":null,"estimated_secs":null,"requires_approval":false,"repeat":false}],"estimated_duration":null,"reasoning":""},"task_type":"default","workflow_id":null,"corrections":0,"notes":[]}');
INSERT INTO "event" VALUES(2,5,1.79592335887432837486e+09,1,'execution_mode','{"mode":"parallel","reason":"4 steps, up to 8 calls at a time"}');
INSERT INTO "event" VALUES(2,6,1.79592335887432837486e+09,1,'step_started','{"step_id":"a","items":null}');
INSERT INTO "event" VALUES(2,7,1.79592335887432837486e+09,1,'call_started','{"call_key":"33019458152122c727594df985d1be31.1","step_id":"a","action_id":null,"index":null,"attempt":1,"tool_id":"book","effect":"once","parameters":{"seat":1}}');
INSERT INTO "event" VALUES(2,8,1.79592335887432837486e+09,1,'step_started','{"step_id":"b","items":null}');
INSERT INTO "event" VALUES(2,9,1.79592335887432837486e+09,1,'call_started','{"call_key":"a01b12bb4b9d3e617f376dd7d193d882.1","step_id":"b","action_id":null,"index":null,"attempt":1,"tool_id":"book","effect":"once","parameters":{"seat":2}}');
INSERT INTO "event" VALUES(2,10,1.79592335889386320118e+09,1,'call_completed','{"call_key":"33019458152122c727594df985d1be31.1","step_id":"a","action_id":null,"index":null,"attempt":1,"tool_id":"book","output":{"seat":1,"ticket":"T1"},"artifact":null,"reused":false,"duration_secs":0.00018971100143971853}');
INSERT INTO "event" VALUES(2,11,1.79592335889386320118e+09,1,'step_completed','{"step_id":"a","metadata":{}}');
INSERT INTO "event" VALUES(2,12,1.79592335889386320118e+09,1,'step_started','{"step_id":"c","items":null}');
INSERT INTO "event" VALUES(2,13,1.79592335889386320118e+09,1,'call_started','{"call_key":"bd6d91b69f1070abe217d5e08d9aaad0.1","step_id":"c","action_id":null,"index":null,"attempt":1,"tool_id":"send","effect":"repeatable","parameters":{"ticket":"T1"}}');
INSERT INTO "event" VALUES(2,14,1.79592335889386320118e+09,1,'call_completed','{"call_key":"a01b12bb4b9d3e617f376dd7d193d882.1","step_id":"b","action_id":null,"index":null,"attempt":1,"tool_id":"book","output":{"seat":2,"ticket":"T2"},"artifact":null,"reused":false,"duration_secs":0.00007943800119392108}');
INSERT INTO "event" VALUES(2,15,1.79592335889386320118e+09,1,'step_completed','{"step_id":"b","metadata":{}}');
INSERT INTO "event" VALUES(2,16,1.79592335890262651439e+09,1,'call_completed','{"call_key":"bd6d91b69f1070abe217d5e08d9aaad0.1","step_id":"c","action_id":null,"index":null,"attempt":1,"tool_id":"send","output":"sent T1","artifact":null,"reused":false,"duration_secs":0.00027448699984233826}');
INSERT INTO "event" VALUES(2,17,1.79592335890262651439e+09,1,'step_completed','{"step_id":"c","metadata":{}}');
INSERT INTO "event" VALUES(2,18,1.79592335890262651439e+09,1,'step_started','{"step_id":"d","items":null}');
INSERT INTO "event" VALUES(2,19,1.79592335890262651439e+09,1,'call_started','{"call_key":"47b24674e0d204114eb86d13cbaa9e03.1","step_id":"d","action_id":null,"index":null,"attempt":1,"tool_id":"send","effect":"repeatable","parameters":{"ticket":"T2"}}');
CREATE TABLE signal (
    id   INTEGER PRIMARY KEY AUTOINCREMENT,
    task INTEGER NOT NULL REFERENCES task (id),
    seq  INTEGER NOT NULL
);
CREATE TABLE task (
    id          INTEGER PRIMARY KEY,
    task_id     TEXT    NOT NULL UNIQUE,
    request     TEXT    NOT NULL,           -- digest of what was asked, to tell a repeat from a clash
    status      TEXT    NOT NULL,
    description TEXT    NOT NULL,
    created     REAL    NOT NULL,
    updated     REAL    NOT NULL,
    last_seq    INTEGER NOT NULL,
    epoch       INTEGER NOT NULL DEFAULT 0,
    holder      TEXT                        -- the process that drives it, see holders.py
);
INSERT INTO "task" VALUES(1,'done','450b283a3740a7880c8bccfb87ad6b80','succeeded','Book two seats',1.79592335680285954471e+09,1795923356.84155,24,2,NULL);
INSERT INTO "task" VALUES(2,'cut','450b283a3740a7880c8bccfb87ad6b80','executing','Book two seats',1.79592335886685276029e+09,1.79592335890262651439e+09,19,1,'1-e498b70b77e2d6a7');
CREATE TABLE tool_names (
    source  TEXT NOT NULL PRIMARY KEY,
    names   TEXT NOT NULL,
    updated REAL NOT NULL
) WITHOUT ROWID;
INSERT INTO "tool_names" VALUES('python','["book", "send"]',1.79592335680163693424e+09);
CREATE TABLE tool_stats (
    source  TEXT NOT NULL,
    tool_id TEXT NOT NULL,
    data    TEXT NOT NULL,
    updated REAL NOT NULL,
    PRIMARY KEY (source, tool_id)
) WITHOUT ROWID;
INSERT INTO "tool_stats" VALUES('python','book','{"calls": 4, "failures": 0, "durations": {"-50": 1, "-57": 1, "-49": 1, "-53": 1}, "errors": {}, "recent": "++++"}',1.79592335889960265154e+09);
INSERT INTO "tool_stats" VALUES('python','send','{"calls": 2, "failures": 0, "durations": {"-49": 1, "-55": 1}, "errors": {}, "recent": "++"}',1.7959233568519587517e+09);
CREATE INDEX task_status ON task (status, id);
DELETE FROM "sqlite_sequence";
COMMIT;
