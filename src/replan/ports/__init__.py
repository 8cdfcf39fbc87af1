"""Every seam: what the loop needs from the outside, as small protocols."""

from replan.core.limits.prices import Price
from replan.ports.contents import ArtifactStore, Content, Contents, NewArtifact
from replan.ports.database import Ask, Database
from replan.ports.delivery import (
    MOST_BEHIND,
    Batch,
    Consumer,
    ConsumerState,
    Delivered,
    HasOutbox,
    NotTaken,
    Outbox,
    Reading,
)
from replan.ports.forks import Forks, Member, Shared, Taken
from replan.ports.keys import HasKeys, Keys, StoredKey
from replan.ports.kinds import Kinds
from replan.ports.log import Appended, Claim, Counted, EventLog, Landing, Listening, Redaction
from replan.ports.models import (
    Model,
    ModelReply,
    ModelRequest,
    Priced,
    Records,
    Replayed,
    Turn,
    Warmable,
    Watcher,
)
from replan.ports.moving import Admission, Movable, StoredRow, StoredTask
from replan.ports.registries import Endpoints, Instance, Look, Registry, ServiceState
from replan.ports.store import Store, ToolMemory
from replan.ports.task_list import TaskIndex, TaskSummary
from replan.ports.tidying import KeptTask, Tidy
from replan.ports.time_and_ids import Clock, Ids
from replan.ports.tool_sources import (
    Discreet,
    KeptOutput,
    Progress,
    Question,
    Reporting,
    Sampled,
    ToolCall,
    ToolProblem,
    ToolSource,
    Watched,
    WithFiles,
)
from replan.ports.tools import Denies, Gate, Names, Tools

__all__ = [
    "MOST_BEHIND",
    "Admission",
    "Appended",
    "ArtifactStore",
    "Ask",
    "Batch",
    "Claim",
    "Clock",
    "Consumer",
    "ConsumerState",
    "Content",
    "Contents",
    "Counted",
    "Database",
    "Delivered",
    "Denies",
    "Discreet",
    "Endpoints",
    "EventLog",
    "Forks",
    "Gate",
    "HasKeys",
    "HasOutbox",
    "Ids",
    "Instance",
    "KeptOutput",
    "KeptTask",
    "Keys",
    "Kinds",
    "Landing",
    "Listening",
    "Look",
    "Member",
    "Model",
    "ModelReply",
    "ModelRequest",
    "Movable",
    "Names",
    "NewArtifact",
    "NotTaken",
    "Outbox",
    "Price",
    "Priced",
    "Progress",
    "Question",
    "Reading",
    "Records",
    "Redaction",
    "Registry",
    "Replayed",
    "Reporting",
    "Sampled",
    "ServiceState",
    "Shared",
    "Store",
    "StoredKey",
    "StoredRow",
    "StoredTask",
    "Taken",
    "TaskIndex",
    "TaskSummary",
    "Tidy",
    "ToolCall",
    "ToolMemory",
    "ToolProblem",
    "ToolSource",
    "Tools",
    "Turn",
    "Warmable",
    "Watched",
    "Watcher",
    "WithFiles",
]
