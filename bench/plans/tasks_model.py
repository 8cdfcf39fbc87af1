"""Tasks in whose middle something has to be read and understood, or put into words."""

from __future__ import annotations

from bench.plans.hands import Hands
from bench.plans.task import Task, Tools, listed, plan, record, step, tool
from replan.core.types import JsonObject

KIND = "a model in the middle"

# ── a summary ─────────────────────────────────────────────────────────────────

MINUTES = "\n".join(
    f"{n}. {who} reports on {what}. It was talked about at length, with several voices for going on as planned and one "
    "against. It was noted that the costs are within what was agreed, that nothing has been decided elsewhere, and that it "
    "comes back on the table in four weeks."
    for n, (who, what) in enumerate(
        [
            ("Ada", "the move to the new building"), ("Bela", "the budget of the second half"),
            ("Chiara", "the two open positions"), ("Dorian", "the audit"), ("Elif", "the summer fair"),
            ("Femi", "the contract with the caterer"), ("Gro", "the broken lift"), ("Hal", "the new website"),
        ],
        1,
    )
)  # fmt: skip
SUMMARY = (
    "Nothing was decided. The move, the budget, two positions, the audit, the fair, the caterer, the lift and the website "
    "were reported on; all are within their costs and come back in four weeks."
)


def _minutes_tools() -> Tools:
    return {
        "get_document": tool("A document.", {"text": MINUTES}, {"text": "string"}, secs=2, id="string"),
        "post_message": tool("Post to a channel.", "ok", effect="once", channel="string", text="string"),
    }


async def _minutes(hands: Hands) -> str:
    await hands.do("get_document", id="minutes-31")
    await hands.do("post_message", channel="all", text=SUMMARY)
    return "The summary is posted."


MINUTES_TASK = Task(
    "a summary",
    KIND,
    "Post a summary of the document minutes-31, in two sentences, to the channel all.",
    _minutes_tools,
    _minutes,
    before=[
        plan(step("step_1", "get_document", id="minutes-31")),
        plan(step("step_2", "post_message", channel="all", text=SUMMARY)),
    ],
    now=[
        plan(
            step("step_1", "get_document", id="minutes-31"),
            step(
                "step_2",
                "model",
                instruction="Sum up these minutes in two sentences, for colleagues who were not there.",
                input="${step_1.output.text}",
            ),
            step("step_3", "post_message", channel="all", text="${step_2.output}"),
        )
    ],
    answers={"step_answer": [{"answer": SUMMARY}]},
)

# ── tickets into queues ───────────────────────────────────────────────────────

QUEUES = ["billing", "delivery", "access", "other"]
TEXTS = {
    "billing": "I was charged twice in May, and the second sum is not even mine. Please look at the attached statement.",
    "delivery": "The parcel was to come on Monday; the page still says that it waits at the depot in Hanover.",
    "access": "After the new password I am thrown out at once, on the phone and on the computer.",
    "other": "I only wanted to say that your new shop in the old town is very nice. Will there be coffee, too?",
}
TICKETS = [{"id": f"t{n}", "text": TEXTS[QUEUES[n * 3 % 4]]} for n in range(12)]
SORTED: list[JsonObject] = [{"id": f"t{n}", "queue": QUEUES[n * 3 % 4]} for n in range(12)]


def _ticket_tools() -> Tools:
    return {
        "list_tickets": tool(
            "The tickets that nobody has sorted yet.",
            {"tickets": TICKETS},
            {"tickets": listed(id="string", text="string")},
        ),
        "move_ticket": tool(
            "Move a ticket to a queue.",
            "ok",
            effect="once",
            id="string",
            queue={"type": "string", "enum": QUEUES},
        ),
    }


async def _tickets(hands: Hands) -> str:
    await hands.do("list_tickets")
    await hands.each(*(hands.do("move_ticket", **one) for one in SORTED))
    return "Twelve tickets are sorted."


TICKETS_TASK = Task(
    "tickets into queues",
    KIND,
    "Move each new ticket to the queue that it belongs to by what it says.",
    _ticket_tools,
    _tickets,
    before=[
        plan(step("step_1", "list_tickets")),
        plan(*(step(f"step_{n}", "move_ticket", **one) for n, one in enumerate(SORTED, 2))),
    ],
    now=[
        plan(
            step("step_1", "list_tickets"),
            step(
                "step_2",
                "model",
                instruction="Say for each ticket to which queue it belongs: billing, delivery, access (cannot log in), or other.",
                input="${step_1.output.tickets}",
                schema=listed(id="string", queue={"type": "string", "enum": QUEUES}),
            ),
            step(
                "step_3",
                "move_ticket",
                with_={"for_each": "${step_2.output}"},
                id="${item.id}",
                queue="${item.queue}",
            ),
        )
    ],
    answers={"step_answer": [{"answer": SORTED}]},
)

# ── an order in prose ─────────────────────────────────────────────────────────

ORDERED = [
    {"article": "hinge 40", "count": 12},
    {"article": "screw M4", "count": 200},
    {"article": "oil", "count": 2},
]
LETTER = (
    "Dear all, thank you for the quick help last week. For the boat we would now need a dozen of the hinges in 40, the same as "
    "in spring, and screws for them, M4, two boxes of a hundred each should do. Could you add two cans of your oil? It may come "
    "with the usual tour to the yard in Kappeln. With best regards, Ole Jansen, Jansen & Daughters"
)


def _order_tools() -> Tools:
    return {
        "read_mail": tool("A mail.", {"body": LETTER}, {"body": "string"}, id="string"),
        "find_customer": tool("A customer by name.", {"id": "c9"}, {"id": "string"}, name="string"),
        "create_order": tool(
            "Make an order.",
            "ok",
            effect="once",
            customer="string",
            lines={"type": "array", "items": record(article="string", count="integer")},
        ),
    }


async def _order(hands: Hands) -> str:
    await hands.do("read_mail", id="m-77")
    found = await hands.do("find_customer", name="Jansen & Daughters")
    await hands.do("create_order", customer=found["id"], lines=ORDERED)
    return "The order of Jansen & Daughters is made."


ORDER_TASK = Task(
    "an order in prose",
    KIND,
    "Make the order that mail m-77 asks for.",
    _order_tools,
    _order,
    before=[
        plan(step("step_1", "read_mail", id="m-77")),
        plan(
            step("step_2", "find_customer", name="Jansen & Daughters"),
            step("step_3", "create_order", customer="${step_2.output.id}", lines=ORDERED),
        ),
    ],
    now=[
        plan(
            step("step_1", "read_mail", id="m-77"),
            step(
                "step_2",
                "model",
                instruction="Give the name of the firm that writes, and what it orders: each article with its size, and how many pieces.",
                input="${step_1.output.body}",
                schema={
                    **record(firm="string", lines=listed(article="string", count="integer")),
                    "required": ["firm", "lines"],
                },
            ),
            step("step_3", "find_customer", name="${step_2.output.firm}"),
            step(
                "step_4",
                "create_order",
                customer="${step_3.output.id}",
                lines="${step_2.output.lines}",
            ),
        )
    ],
    answers={"step_answer": [{"answer": {"firm": "Jansen & Daughters", "lines": ORDERED}}]},
)

# ── letters from notes ────────────────────────────────────────────────────────

PEOPLE = ["Ada", "Bela", "Chiara", "Dorian", "Elif", "Femi"]


def _note(name: str) -> str:
    return (
        f"{name} has bought a stove in autumn, asked twice how to clean it, and had a visit of our service in January. "
        * 3
    )


def _letter(name: str) -> str:
    return (
        f"Dear {name}, we hope that your stove keeps you warm since our visit in January. A brush for it is on its way to you, as "
        "you asked how to clean it."
    )


LETTERS: list[JsonObject] = [{"to": name, "text": _letter(name)} for name in PEOPLE]


def _letter_tools() -> Tools:
    return {
        "list_customers": tool("The customers of a list.", {"names": PEOPLE}, secs=1, name="string"),
        "get_notes": tool(
            "What we know of a customer.",
            lambda given: {"name": given["name"], "notes": _note(given["name"])},
            {"name": "string", "notes": "string"},
            secs=2,
            name="string",
        ),
        "send_letter": tool("Send a letter.", "ok", effect="once", secs=2, to="string", text="string"),
    }


async def _letters(hands: Hands) -> str:
    names = (await hands.do("list_customers", name="winter"))["names"]
    await hands.each(*(hands.do("get_notes", name=name) for name in names))
    await hands.each(*(hands.do("send_letter", **one) for one in LETTERS))
    return "Six letters are sent."


READ_NOTES: tuple[JsonObject, ...] = (
    step("step_1", "list_customers", name="winter"),
    step("step_2", "get_notes", with_={"for_each": "${step_1.output.names}"}, name="${item}"),
)
LETTERS_TASK = Task(
    "letters from notes",
    KIND,
    "Write each customer of the list winter a letter of two sentences that fits what we know of them.",
    _letter_tools,
    _letters,
    before=[
        plan(*READ_NOTES),
        plan(*(step(f"step_{n}", "send_letter", **one) for n, one in enumerate(LETTERS, 3))),
    ],
    now=[
        plan(
            *READ_NOTES,
            step(
                "step_3",
                "model",
                instruction="Write each of these customers a letter of two sentences that fits what is known of them.",
                input="${step_2.output}",
                schema=listed(to="string", text="string"),
            ),
            step(
                "step_4",
                "send_letter",
                with_={"for_each": "${step_3.output}"},
                to="${item.to}",
                text="${item.text}",
            ),
        )
    ],
    answers={"step_answer": [{"answer": LETTERS}]},
)

TASKS = (MINUTES_TASK, TICKETS_TASK, ORDER_TASK, LETTERS_TASK)
