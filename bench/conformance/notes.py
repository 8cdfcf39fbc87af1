"""What has to be said about a row: choices of design, options, and where a program may be unfair."""

from __future__ import annotations

NOTES = {
    "R1": """
LangGraph's prebuilt agent sends each call of a model's answer to a task of its own, and keeps the writes of those that
ended before the failure: `pay` is not repeated. The slow one is cancelled and runs again, which is right for a reading
and not for an effect. With one `ToolNode` for all calls (`version="v1"`, or a `ToolNode` in a graph of one's own) a
failure loses them all. Nothing is lost if the tool's error is handled (`handle_tool_errors=True`, see R4).
On Replan the failure is a lost connection of a reading tool, which it tries again by itself; there is nothing to resume.
""",
    "R2": """
LangGraph and Agent Framework run graphs in supersteps by design (Pregel): it makes state deterministic, and costs the
wait. LLMCompiler starts a step as soon as it can, as Replan does.
""",
    "R4": """
To let an exception of a tool end the run is a choice: an exception may be a bug, and the caller should see it. LangGraph,
Pydantic AI and ADK do so by default; a tool that wants the model to know raises or returns something else
(`ModelRetry` in Pydantic AI), LangGraph and ADK have an option. OpenAI Agents and Agent Framework tell the model by
default. What is held against the ones that die is that a call which was under way is cancelled: of an effect nobody
knows whether it happened. “Kept” counts results that the model was shown or that the framework's own record holds.
""",
    "R5": """
The agents have a limit on turns, not on sameness: OpenAI Agents 10, Agent Framework 40 (then it asks for an answer
without tools), Pydantic AI 50, ADK 500; LangGraph's limit is far above ours. To call a tool twice with equal parameters
can be meant (see C16), so a framework that leaves it to the tool's author has a reason. Replan has no loop of calls:
there the same stubbornness is a planner that plans the same payment in every round under a new id.
""",
    "R6": """
OpenAI Agents takes a call of an unknown tool for a fault of the model and raises. Agent Framework tells the model that
the tool was not found, without the names of those that exist.
""",
    "R11": """
Magentic's retries of an unreadable ledger were set to 1, because they wait and change nothing else. `max_reset_count`
and `max_round_count` are unlimited by default, and its documentation recommends to set them: with them it ends as it
should. On Replan an evaluation that cannot be read ends the task as failed, with its outputs kept, without a new plan.
""",
    "R12": """
With its limits set Magentic ends cleanly, with a sentence; one who reads its stream has seen the agents' partial
results, but what it hands out at the end does not hold them. On Replan the same plan a second time is rejected. If the
model has a new idea every round, it ends after 20 rounds in a row without a better evaluation (4, if nothing else is new
either), at `max_rounds`, at another budget, or by default at the task's timeout of 300 s.
""",
    "R13": """
CrewAI's prompt for a new plan asks for steps that are numbered, and its list of steps is looked up by number; a fresh
plan that counts from 1 is therefore put on the finished steps. A model that goes on counting after the last number
would not run into it. On Replan the script counts from 1 again too, and only goes on counting when it is told to.
""",
    "R14": """
CrewAI treats a failed step as finished on purpose, so that later steps are not blocked for ever, and leaves the decision
to its observer; the two lines show what happens where the observer is off or the planner cannot be had.
""",
    "R15": """
LLMCompiler is a paper with a program; what runs here is its port in LlamaIndex, whose package was last released in 2025
and is no longer developed. The same holds for R16, R17 and C12.
""",
    "C1": """
LangGraph is right here. The kill comes when both effects have ended; a kill between an effect and its record is not
part of this row.
""",
    "C2": """
No agent framework here claims to make effects once: idempotency is the tool's business there, and most documentations
say so. That the model calls again after being told of a timeout is our script's doing, though models do it. Where the
run dies instead, one payment was made, but nothing says that it is in doubt. Replan's tool is one without a key of its
own; the second line has a reading tool that shows the record of this very payment, and the task then succeeds.
""",
    "C8": """
CrewAI is right where the planner is gone: it ends with what it has. A planner that answers and never says that it is
ready is asked again for ever if `max_attempts` is not set, as its documentation says. Magentic lets the error through:
bounded, but the agents' results are gone with it.
""",
    "C9": """
OpenAI Agents and Agent Framework's `response_format` ask the endpoint for JSON by schema, and endpoints that honour it
send no fence; the fence comes from those that do not.
""",
    "C10": """
CrewAI chooses to go on when its observer fails, so that an optional check does not stop the work.
""",
    "C16": """
Whether A-B-A-B is a circle only the caller can know for sure. Replan notices it by the same errors and the same plans.
Polls with changing answers pass on Replan, as steps of a plan and as one plan a round, if the tool says that it is
`volatile`; without that a plan that is the same again is a repetition.
""",
    "C19": """
The tool is an asynchronous one, which a cancellation can reach. A function in a thread cannot be stopped in Python, by
anybody.
""",
    "C22": """
Pydantic AI is right here: the messages of a cancelled run keep the finished call and close the open one. ADK and OpenAI
Agents store a batch of calls only when all have ended, so the history stays well-formed and forgets the finished call.
LangGraph's older agent refuses the history with an error that says what is missing; LangChain's newer one passes it on.
On Replan the next turn is a task of its own; what is looked at is the log of the cancelled one.
""",
    "C23": """
The server is one by the protocol's own library (mcp 2.3.0), in a process of its own; only the call is answered with the
status. Each line sets the deadline of a call by the framework's own option; without it Pydantic AI and ADK wait 300 s,
OpenAI Agents 5 s, and Agent Framework's option is unset. The reported fault is fixed in these releases: no status came
out as a cancellation, and none waited much longer than the deadline. That is enough for a ✓, even where the status is lost:
the library makes both of them “Server returned an error response”, and a caller cannot tell a token that has run out
from a gateway that is late. Two tell the model by default only that something failed, OpenAI Agents with “Please try
again”, after a `pay` too; their second lines have the option that tells more.

What fails is the server that comes back: a session that is held open is not reopened, and both later calls fail (ADK
then offers no tools at all: “Session not found”). A program that reconnects by itself has no problem, as Pydantic AI has
none where each run opens a session of its own, which it does unless the toolset is entered outside. No client repeated the
killed call. A peer passes also if only the second later call works.

On Replan the killed call, the late one and the 504 end with the failure `outcome_unknown`, for nobody can tell
whether an effect was made; after the 401 it is known that none was.

Not run: LangGraph, whose langchain-mcp-adapters 0.3.2 wants the library before version 2, while Agent Framework's
client wants 2.2 or newer (0.3.1 can be installed beside it, and not imported). CrewAI 1.15.30: its agent calls from
where no event loop runs, and such a call ends with “Error during MCP client disconnect: no running event loop” even when
all is well, so nothing could be compared. This row was added later than the others, and run by itself.
""",
    "C25": """
ADK documents that 0 and less mean “no limit”. LangGraph and Agent Framework refuse 0 as an invalid limit, which is as
good.
""",
    "E1": """
Rows E and S were added later and run by themselves, on three frameworks. The function runs in a thread, which no framework
can stop. Replan waits for its own thread before it believes a reading, and before a model's “it did not happen” leads to
a second call a person or a setting has to say so; so the task is slower, and may end in doubt. OpenAI Agents refuses a time
limit on a function in a thread, which cannot be stopped by it.
""",
    "E2": """
An agent that calls tools in a loop leaves the last word to the model: there is nobody else to ask. The first lines of
LangGraph and Pydantic AI pass because the error of the tool has ended the run before the model could say anything.
""",
    "E3": """
Where the error ends the run, nothing is repeated, and nobody is told of a doubt. LangGraph's policy leaves out
`RuntimeError` among others and tries again after what it does not know, a timed-out command for instance; which
exceptions are repeated is the author's to say. On Replan the tool is one of which nothing is said, so each call counts.
""",
    "E6": """
That the same payment is asked for twice may be meant (see E8); a framework without a notion of an effect cannot know.
E6 and E7 have to be read with E8: who refuses every second call fails there.
""",
    "E9": """
LangGraph refuses two writers of one key in a superstep with an error that says so, and wants a reducer: nothing wrong is
paid. Its graph has no order among branches; Replan's plan has one, in which the steps are written.
""",
    "E10": """
In LangGraph a condition is Python by the author of the graph, who would write `json.loads`; without it the run ends with
an error instead of a wrong branch, which is right.
""",
    "E12": """
Both peers document that what a person gives replaces all arguments. Whoever builds the form has to send them all.
""",
    "E14": """
Which tool is called is the model's choice in an agent; approvals and allow-lists are the means against it. In a *plan*
Replan lets `delete_ticket` pass as well; what it refuses is a stronger tool as a stand-in for a failed one.
""",
    "S4": """
OpenAI Agents hands the error to the caller instead of the model; one may run it again with it.
""",
    "S7": """
None of the three documents generator functions as tools.
""",
    "S9": """
LangGraph shows the model a text with both keys and `NaN`, which is no JSON but loses nothing. What the line of Pydantic AI
quotes is the text that its adapters send.
""",
    "S10": """
Python does not check annotations, and neither do these frameworks for results of tools; whoever wants it validates.
""",
    "S16": """
LangGraph's prebuilt agent keeps the ten in its record, and goes on with them when it is resumed (see R1); what is held
against it here is only that the run dies. On Replan the new plan leaves the two letters out, which is a success only where the
evaluation says why they are not needed; the script says so.
""",
}
