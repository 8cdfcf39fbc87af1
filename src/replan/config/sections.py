"""Every section and key of the configuration, with its default and its bounds."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from replan.core.calls.verify import expression_problems
from replan.core.limits.policy import Budget, OlderLimits, Policy
from replan.core.secrets.signing import KEY_BYTES, KEY_PREFIX, signing_key
from replan.core.tools.rules import ToolRule, ToolRules, read_rate
from replan.core.types import Verifier


def _unset_when_empty(value: Any) -> Any:
    return None if value == "" else value


def _rate(value: Any) -> Any:
    if isinstance(value, str):
        read_rate(value)
    return value


def _rate_or_none(value: Any) -> Any:
    return _rate(value) if value else value


def _web_address(value: Any) -> Any:
    """Without a slash at its end."""
    if not isinstance(value, str) or value == "":
        return _unset_when_empty(value)
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        good = good and "@" not in parts.netloc and not any(c.isspace() or c in "?#" for c in value)
    except ValueError:  # a port or an address that is none
        good = False
    if not good:
        raise ValueError(
            "this is no address of a web server; write one like https://agents.example.com/replan, without a query or a password"
        )
    return value.rstrip("/")


def _address_to_call(value: Any) -> Any:
    """The whole of it may be secret: it is not told."""
    if not isinstance(value, str):
        return value
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        good = good and "@" not in parts.netloc and not any(c.isspace() or c == "#" for c in value)
    except ValueError:  # a port or an address that is none
        good = False
    if not good:
        raise ValueError(
            "this is no address that can be called; write one like https://example.com/hooks, without a password in it"
        )
    return value


def _signing_secret(value: Any) -> Any:
    if isinstance(value, str) and value and signing_key(value) is None:
        raise ValueError(
            f"a secret is {KEY_PREFIX} and the Base64 of {KEY_BYTES.start} to {KEY_BYTES.stop - 1} random bytes, as in the convention Standard Webhooks; "
            f"one is made by: python -c \"import base64, os; print('{KEY_PREFIX}' + base64.b64encode(os.urandom(32)).decode())\""
        )
    return _unset_when_empty(value)


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


Text = Annotated[str, Field(min_length=1)]
OptionalText = Annotated[str | None, BeforeValidator(_unset_when_empty)]
"""An empty text means: not set."""
Secret = Annotated[str | None, BeforeValidator(_unset_when_empty), Field(repr=False)]
Port = Annotated[int, Field(ge=0, le=65535)]
"""0: any free one."""
Secs = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
AtLeastOne = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$")]
NAME_RULE = "has small letters, digits, - and _, at most 40"
Percent = Annotated[float, Field(ge=0, le=100)]
Texts = Annotated[tuple[Text, ...], Field(strict=False)]
Lower = BeforeValidator(_lower)


class Section(BaseModel):
    """One `[section]`: immutable, strict about types, and closed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Server(Section):
    """Where the service listens."""

    host: Text = "127.0.0.1"
    port: Port = 8080
    grpc_port: Port = 50051
    request_timeout_secs: Secs = 60.0
    max_connections: AtLeastOne = 1000
    max_open_per_key: AtLeastOne | None = None
    """Streams, waits and sessions that one key or token may hold open at once; unset: half of `max_connections`."""
    max_open_per_tenant: AtLeastOne | None = None
    """The same of all keys and tokens of a tenant; unset: three quarters."""
    max_queued_tasks: AtLeastOne = 1000
    """Tasks that may wait for a place in this process; past that: 429."""
    drain_secs: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 20.0
    """How long what runs may take to end when the service is told to."""
    auth: Annotated[Literal["off", "keys", "oidc", "keys+oidc"], Lower] = "off"
    """How callers say who they are. `off`: nobody asks, which goes on loopback only."""
    failed_signins: Annotated[str, BeforeValidator(_rate_or_none)] = "300/minute"
    """So often nobody may sign in from one address with what is not good; then 429. Empty: any number."""
    allowed_hosts: Texts = ()
    """Names that callers may know it by (`Host`), `*.example.com` for all below one; unset: loopback's with `off`, else any."""
    cors_origins: Texts = ()
    """Origins whose pages may call it from a browser."""
    a2a: bool = False
    """Tasks for other agents over A2A: an agent card, and `/a2a`."""
    public_url: Annotated[str | None, BeforeValidator(_web_address)] = None
    """Where others reach it, through a proxy: what the agent card says. Unset: as the request for the card was addressed."""
    ag_ui: bool = False
    """Tasks as runs of AG-UI, at `/ag-ui`."""


class Oidc(Section):
    """Tokens of an OpenID provider: from whom, for whom, and what their claims mean here."""

    issuer: OptionalText = None
    """Its URL, as tokens have it in `iss`."""
    audience: Texts = ()
    """One of these has to be in `aud`."""
    jwks_url: OptionalText = None
    """Where its keys are; unset: where its discovery document says."""
    algorithms: Texts = ("RS256", "PS256", "ES256", "ES384", "EdDSA")
    clock_skew_secs: Annotated[float, Field(ge=0, le=300)] = 30.0
    keys_for_secs: Secs = 600.0
    """How long its keys are taken as they are, before they are asked for again."""
    who_claim: Text = "sub"
    """What logs say of who did something."""
    tenant_claim: OptionalText = None
    """Whose tasks the caller sees; `a.b` for one within another. Unset: all tokens are for `tenant`."""
    tenant: OptionalText = None
    """Of every token, where there is no `tenant_claim`."""
    tenants: dict[Text, Text] = {}
    """From what the claim says to the tenant; empty: as it says."""
    scope_claim: Text = "scope"
    """A text with spaces between, or a list; `a.b` for one within another."""
    scopes: dict[Text, Text] = {}
    """From what the claim says to `read`, `run`, `approve` or `admin`; empty: as it says."""
    default_scopes: Texts = ()
    """Of a token that has no such claim."""


class Limits(Section):
    """What each tenant may use that has no limits of its own (`replan keys limits`). Unset: no such limit."""

    max_unfinished_tasks: Count | None = None
    submits: Annotated[Text, BeforeValidator(_rate)] | None = None
    """Like `10/second` or `600/minute`, for each process."""
    max_cost_usd_per_task: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    max_tokens_per_task: Count | None = None
    max_cost_usd_per_day: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Of the tasks that were submitted on a day (UTC)."""
    max_tokens_per_day: Count | None = None


class ModelPrice(Section):
    """Dollars for a million tokens."""

    input: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    output: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    cached_input: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Of what a provider has read from its cache; unset: as any input."""


class ModelProvider(Section):
    """How a provider of models is reached, or one of your own under a name of your own."""

    kind: OptionalText = None
    """The provider that it is like; unset: the one that the table is named for, or any OpenAI-compatible one."""
    endpoint: OptionalText = None
    api_key: Secret = None
    api_version: OptionalText = None
    region: OptionalText = None
    structured: Annotated[Literal["native", "tool", "prompted"], Lower] | None = None
    """The strongest way in which it gives structured answers; unset: found out."""
    streaming: bool | None = None


class ModelLimit(Section):
    """What a model may be asked in a minute, by all tasks of a process together."""

    requests_per_minute: AtLeastOne | None = None
    tokens_per_minute: AtLeastOne | None = None


class Llm(Section):
    """Which models answer, and how they are asked. Nothing set: the built-in local model."""

    service_name: OptionalText = None
    """Of the model service, for Consul; or `dns:HOST:PORT`, `srv:NAME`, `static:HOST:PORT,…`."""
    endpoint: OptionalText = None
    fallback_endpoint: OptionalText = None
    api_key: Secret = None
    default_model: OptionalText = None
    """`provider:name`, or a bare name that `endpoint` knows."""
    selection_model: OptionalText = None
    planning_model: OptionalText = None
    reflection_model: OptionalText = None
    evaluation_model: OptionalText = None
    step_model: OptionalText = None
    local_model: OptionalText = None
    """The built-in model to use: a name of `replan model list`, or the path of a GGUF file."""
    timeout_secs: Secs = 60.0
    max_retries: Count = 3
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.7
    top_p: Annotated[float, Field(gt=0, le=1)] = 0.9
    protocol: Annotated[Literal["http", "grpc"], Lower] = "http"
    ca_file: OptionalText = None
    """Of model services over gRPC: the certificates that are trusted in place of the usual ones."""
    enable_streaming: bool = True
    max_streaming_indicators: Count = 5
    prices: dict[Text, ModelPrice] = {}
    """By the model's name as it is configured; `*`: every other."""
    fallback_models: Texts = ()
    """`provider:name`, asked in this order where the model of a role does not answer."""
    providers: dict[Text, ModelProvider] = {}
    """By the name that stands before the colon of a model."""
    limits: dict[Text, ModelLimit] = {}
    """By the model's name as it is configured; `*`: each other."""
    thinking: Annotated[Literal["off", "on", "minimal", "low", "medium", "high", "max"], Lower] | None = None
    """How long reasoning models think; unset: as each does by itself."""
    prompt_caching: bool = True
    """Providers that have to be told keep what stands at the head of every prompt."""


class ToolService(Section):
    """A remote tool service."""

    service_name: OptionalText = None
    """As that of [llm]."""
    endpoint: OptionalText = None
    fallback_endpoint: OptionalText = None
    token: Secret = None
    connect_timeout_secs: Secs = 5.0
    timeout_secs: Secs = 60.0
    max_retries: Count = 3
    protocol: Annotated[Literal["grpc", "http"], Lower] = "grpc"


class VerifyTable(Section):
    """How it is found out whether a call in doubt took effect."""

    tool: Text
    """The tool that reads."""
    parameters: dict[Text, Any] = {}
    """May refer to `${call.key}` and `${call.parameters.NAME}`."""
    happened: Text
    """A JMESPath over {output, call}: true, or the records of this call."""
    output: Text | None = None
    """A JMESPath over {output, call, record}: what the call has given."""
    after_secs: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """How long after the doubt arose a "no" counts; unset: the tool's own limit once more."""
    regardless_of: list[Text] = []
    """Fields of the reading that do not say, in it, that it is not the whole (a `total` that is a sum of money)."""

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        if problems := expression_problems(Verifier(**self.model_dump())):
            raise ValueError("; ".join(problems))
        return self


class ToolRuleTable(Section):
    """What is decided about the tools that a pattern fits. Unset: what their source says."""

    effect: Annotated[Literal["reads", "repeatable", "once"], Lower] | None = None
    volatile: bool | None = None
    stable: bool | None = None
    closed_output: bool | None = None
    requires_approval: bool | None = None
    timeout_secs: Secs | None = None
    max_retries: Count | None = None
    """Further tries after a passing fault, where the call may be repeated at all."""
    honours_key: bool | None = None
    errors_are_clean: bool | None = None
    secrets: Texts | None = None
    """Parameters that are secret, besides those that the source says."""
    max_concurrent: AtLeastOne | None = None
    rate: Annotated[Text, BeforeValidator(_rate)] | None = None
    """Like `10/second` or `5/10s`."""
    verify: VerifyTable | None = None
    substitutes: Texts | None = None
    """Tools that do the very same thing: the effect of one may stand for that of this one."""
    unique_by: Texts | None = None
    """Parameters (`invoice`, `body.title`) by which its effects are told apart."""


class Tools(Section):
    """Where tools come from besides the command line, and what is decided about them."""

    sources: Texts = ()
    """SPECs, as `--tools` takes them."""
    allow: Texts = ()
    """Patterns of the tools that may be used; none: all."""
    deny: Texts = ()
    list_timeout_secs: Secs = 30.0
    """How long a start waits for the list of a source; what takes longer is taken in when it comes."""
    samples: bool = True
    """Whoever plans is shown a little of the data behind tools."""
    rules: dict[Text, ToolRuleTable] = {}
    """By pattern; the later over the earlier."""
    mcp_servers: dict[Text, dict[str, Any]] = {}
    """By name; keys as in the `mcpServers` of other MCP clients."""
    openapi: dict[Text, dict[str, Any]] = {}
    """By name."""

    def tool_rules(self) -> ToolRules:
        """The rules as the catalogue takes them."""
        made = tuple((pattern, ToolRule(**rule.model_dump())) for pattern, rule in self.rules.items())
        return ToolRules(allow=self.allow, deny=self.deny, rules=made, samples=self.samples)


class Orchestrator(Section):
    """How tasks are planned, run and judged."""

    task_timeout_secs: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 300.0
    enable_auto_reflection: bool = True
    evaluation: Annotated[Literal["model", "steps"], Lower] = "model"
    success_threshold: Percent = 80.0
    correctness_excellent: Percent = 95.0
    max_concurrent_tasks: AtLeastOne = 10
    lend_place_after_secs: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Unset: a tenth of the time limit."""
    enable_two_stage_planning: bool = True
    two_stage_tool_threshold: Count = 10
    enable_builtin_workflows: bool = True
    tool_selection_threshold: Percent = 70.0
    enable_parallel_execution: bool = True
    parallel_max_concurrent: AtLeastOne = 8
    parallel_min_steps: Count = 2


class Reflection(Section):
    """What happens to failures. The limits are the older service's: unset, they only inform the prompts."""

    enable_step_level_reflection: bool = True
    max_step_retries: Count | None = None
    max_single_step_repairs: Count | None = None
    max_task_replanning_attempts: Count | None = None
    consecutive_failure_threshold: Count | None = None
    max_reflection_rounds: Count | None = None


class Recovery(Section):
    """How calls in doubt are settled."""

    trust_model_settlement: bool = False
    """A model's reading that a call did not happen is enough to make it again, once `after_secs` have passed."""


class BudgetSection(Section):
    """Limits of each task. Unset: no such limit; 0: none allowed."""

    max_llm_calls: Count | None = None
    max_tokens: Count | None = None
    max_cost_usd: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    max_tool_calls: Count | None = None
    max_rounds: Count | None = None


class Approval(Section):
    """What a person has to say yes to."""

    mode: Annotated[Literal["never", "destructive", "all"], Lower] = "never"
    review_plan: bool = False
    """Each plan, too, before any step of it starts."""
    expires_secs: Secs | None = None
    """So long a person is waited for; unset: as long as it takes."""


class Response(Section):
    """Who reads the events: a user, or a developer who also sees prompts and raw answers."""

    mode: Annotated[Literal["user", "developer"], Lower] = "user"


class Debug(Section):
    """A file with final prompts, raw answers, calls and scheduling decisions."""

    save_debug_log: bool = False
    debug_log_file: Text = "debug_log.txt"


class Logging(Section):
    """The program's own log."""

    level: Annotated[Literal["trace", "debug", "info", "warn", "warning", "error", "critical"], Lower] = (
        "info"
    )
    console: bool = True
    file: bool = False
    file_path: Text = "logs/app.log"
    format: Annotated[Literal["text", "json"], Lower] = "text"


class Consul(Section):
    """Registration and discovery."""

    enabled: bool = False
    host: OptionalText = None
    """Of the agent; unset: this machine."""
    port: Annotated[int, Field(ge=1, le=65535)] = 8500
    token: Secret = None
    """Of its access control lists."""
    tls: bool = False
    ca_file: OptionalText = None
    """Whose certificates count; unset: those that the system trusts."""
    cert_file: OptionalText = None
    key_file: OptionalText = None
    datacenter: OptionalText = None
    """Where services are looked for; unset: the agent's own."""
    service_name: Text = "task-orchestration-service"
    service_host: OptionalText = None
    """Where others reach this service; unset: where it listens, or the address of the agent's machine."""
    service_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    tags: Texts = ()
    """That this service is registered with."""
    health_check_interval: Secs = 10.0
    health_check_timeout: Secs = 5.0
    health_check_url: OptionalText = None
    load_balance: Annotated[Literal["sticky", "round_robin", "random"], Lower] = "sticky"
    discover_tags: Texts = ()
    """Only instances with all of these are asked."""


class DatabaseService(Section):
    """The store's database; unset: a SQLite file in the user's state folder."""

    connection_string: Secret = None
    max_connections: AtLeastOne = 20


class Audit(Section):
    """A file of audit records, one a line."""

    file: OptionalText = None
    """Its folder is made; unset: none."""
    file_max_mb: Annotated[float, Field(ge=0.001, allow_inf_nan=False)] = 100.0
    """A file that would get larger is moved to FILE.1."""
    file_keep: Count | None = None
    """So many older files are kept; unset: all."""


class KafkaService(Section):
    """Delivery of audit records to Kafka."""

    enabled: bool = False
    brokers: Texts = ("localhost:9092",)
    topic: Text = "task-audit-log"
    compression: Annotated[Literal["none", "gzip", "snappy", "lz4", "zstd"], Lower] = "snappy"
    connect_timeout_secs: Secs = 5.0
    timeout_secs: Secs = 60.0
    """How long brokers may take to confirm a batch."""
    max_retries: Count = 3
    """Further tries of a request that failed, before the whole batch comes again after a pause."""
    tls: bool = False
    ca_file: OptionalText = None
    """Whose certificates count; unset: those that the system trusts."""
    cert_file: OptionalText = None
    key_file: OptionalText = None
    key_password: Secret = None
    sasl_mechanism: Annotated[
        Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None,
        BeforeValidator(_unset_when_empty),
        BeforeValidator(_upper),
    ] = None
    """How this service signs in; unset: not at all."""
    sasl_username: OptionalText = None
    sasl_password: Secret = None


class WebhookEndpoint(Section):
    """Somebody who is told over HTTP what tasks come to."""

    url: Annotated[Text, BeforeValidator(_address_to_call), Field(repr=False)]
    secret: Annotated[Text, BeforeValidator(_signing_secret), Field(repr=False)]
    """What each message is signed with."""
    previous_secret: Annotated[str | None, BeforeValidator(_signing_secret), Field(repr=False)] = None
    """Also signed with, until the receiver has the new one."""
    events: Annotated[tuple[Literal["waiting", "ended"], ...], Field(strict=False, min_length=1)] = (
        "waiting",
        "ended",
    )
    tenants: Texts = ()
    """Whose tasks; none: of all."""
    timeout_secs: Secs = 15.0
    """How long one answer may take."""
    allow_private: bool = False
    """It may also be at a loopback, private, unique local or carrier's address."""
    allow_hosts: Texts = ()
    """Exceptions, each a host name, an address or a network."""


class Webhooks(Section):
    """Who is told over HTTP what tasks come to."""

    endpoints: dict[Name, WebhookEndpoint] = {}
    """By name."""


class Store(Section):
    """How the event log is kept."""

    synchronous: Annotated[Literal["normal", "full"], Lower] = "normal"
    """`normal` survives a killed process, `full` a power cut too."""
    max_output_bytes: Annotated[int, Field(ge=1024)] = 262_144
    """Larger outputs are stored as artifacts."""
    retention_days: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class Engine(Section):
    """Who drives the tasks."""

    kind: Annotated[Literal["local", "procrastinate"], Lower] = "local"
    """`local`: whoever submits a task drives it. `procrastinate`: workers do, over a PostgreSQL database."""
    worker_concurrency: AtLeastOne | None = None
    """So many tasks at a time in one worker; unset: as `[orchestrator] max_concurrent_tasks`."""
    takeover_secs: Secs = 30.0
    """The task of a worker that is gone is another's within that."""
    max_running_tasks: AtLeastOne | None = None
    """So many tasks at a time by all workers together; unset: no such limit."""


class Tracing(Section):
    """OpenTelemetry traces."""

    otlp_endpoint: OptionalText = None
    include_content: bool = False


class Scenes(Section):
    """Files with guidance for kinds of task, and plans that are written beforehand."""

    paths: Texts = ()
    """Scenes: files, or folders with some."""
    workflows: Texts = ()
    """The same of workflows."""


class Settings(Section):
    """The whole configuration."""

    server: Server = Server()
    oidc: Oidc = Oidc()
    limits: Limits = Limits()
    llm: Llm = Llm()
    tool_service: ToolService = ToolService()
    tools: Tools = Tools()
    orchestrator: Orchestrator = Orchestrator()
    reflection: Reflection = Reflection()
    recovery: Recovery = Recovery()
    budget: BudgetSection = BudgetSection()
    approval: Approval = Approval()
    response: Response = Response()
    debug: Debug = Debug()
    logging: Logging = Logging()
    consul: Consul = Consul()
    database_service: DatabaseService = DatabaseService()
    kafka_service: KafkaService = KafkaService()
    audit: Audit = Audit()
    webhooks: Webhooks = Webhooks()
    store: Store = Store()
    engine: Engine = Engine()
    tracing: Tracing = Tracing()
    scenes: Scenes = Scenes()

    def policy(self) -> Policy:
        """What a task is allowed and how it is run, as it is recorded with each task."""
        loop, older = self.orchestrator, self.reflection
        return Policy(
            budget=Budget(task_timeout_secs=loop.task_timeout_secs, **self.budget.model_dump()),
            enable_step_level_reflection=older.enable_step_level_reflection,
            enable_auto_reflection=loop.enable_auto_reflection,
            older=OlderLimits(**older.model_dump(exclude={"enable_step_level_reflection"})),
            trust_model_settlement=self.recovery.trust_model_settlement,
            evaluation=loop.evaluation,
            approval=self.approval.mode,
            review_plan=self.approval.review_plan,
            approval_expires_secs=self.approval.expires_secs,
            success_threshold=loop.success_threshold,
            correctness_excellent=loop.correctness_excellent,
            enable_two_stage_planning=loop.enable_two_stage_planning,
            two_stage_tool_threshold=loop.two_stage_tool_threshold,
            tool_selection_threshold=loop.tool_selection_threshold,
            enable_parallel_execution=loop.enable_parallel_execution,
            parallel_max_concurrent=loop.parallel_max_concurrent,
            parallel_min_steps=loop.parallel_min_steps,
            max_transient_retries=self.tool_service.max_retries,
            max_output_bytes=self.store.max_output_bytes,
            enable_streaming=self.llm.enable_streaming,
        )
