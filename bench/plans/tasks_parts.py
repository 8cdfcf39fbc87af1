"""Tasks whose second half can only be planned once somebody has read what the first half gives."""

from __future__ import annotations

from collections.abc import Sequence

from bench.plans.hands import Hands
from bench.plans.task import Task, Tools, listed, plan, step, tool
from replan.core.types import JsonObject

KIND = "look first, then plan the rest"


def _parts(*parts: JsonObject) -> tuple[Sequence[JsonObject], Sequence[JsonObject]]:
    """The same plans without `more`, and with it."""
    return [{name: said for name, said in one.items() if name != "more"} for one in parts], parts


# ── an incident ───────────────────────────────────────────────────────────────

LOG = "\n".join(
    f"09:{minute:02} billing-worker: write /var/spool/billing/{minute:04}: No space left on device; will try again"
    for minute in range(12, 24)
)
RUNBOOKS = [
    {"id": "rb-restart", "title": "Restart a service", "when": "It answers nothing and its log is silent."},
    {"id": "rb-spool", "title": "Empty the spool", "when": "A worker cannot write its spool files."},
    {"id": "rb-scale", "title": "Add a machine", "when": "Requests queue while all processors are busy."},
    {
        "id": "rb-cert",
        "title": "Renew a certificate",
        "when": "Clients report that a certificate has run out.",
    },
]
NOTE = "billing-worker cannot write its spool: the disk is full. Ran rb-spool."


def _incident_tools() -> Tools:
    return {
        "get_incident": tool(
            "An incident with the last lines of the service's log.",
            {"service": "billing-worker", "log": LOG},
            {"service": "string", "log": "string"},
            id="string",
        ),
        "list_runbooks": tool(
            "The runbooks that there are, and when each helps.",
            {"runbooks": RUNBOOKS},
            {"runbooks": listed(id="string", title="string", when="string")},
        ),
        "run_runbook": tool("Run a runbook.", "done", effect="once", secs=8, id="string", service="string"),
        "post_note": tool(
            "Add a note to an incident.", "ok", effect="once", incident="string", text="string"
        ),
    }


async def _incident(hands: Hands) -> str:
    found, _ = await hands.each(hands.do("get_incident", id="INC-7"), hands.do("list_runbooks"))
    await hands.do("run_runbook", id="rb-spool", service=found["service"])
    await hands.do("post_note", incident="INC-7", text=NOTE)
    return "The disk was full; the spool has been emptied."


INCIDENT = Task(
    "incident",
    KIND,
    "Look at incident INC-7, run the runbook that fits its cause, and note on it what was found and done.",
    _incident_tools,
    _incident,
    *_parts(
        plan(
            step("step_1", "get_incident", id="INC-7"),
            step("step_2", "list_runbooks"),
            more="Run the runbook that fits the cause, and note what was found and done.",
        ),
        plan(
            step("step_3", "run_runbook", id="rb-spool", service="billing-worker"),
            step("step_4", "post_note", "step_3", incident="INC-7", text=NOTE),
        ),
    ),
)

# ── an inbox ──────────────────────────────────────────────────────────────────

SUBJECTS = [
    "Invoice 411", "Newsletter", "Where is my order?", "Out of office",
    "Your ticket was closed", "Password reset", "Complaint", "Thank you",
]  # fmt: skip
BODIES = {
    f"m{n}": f"{subject}. " + "We write to you about this and hope to hear from you. " * 4
    for n, subject in enumerate(SUBJECTS, 1)
}
REPLIES = {
    "m1": "Thank you, invoice 411 will be paid this week.",
    "m3": "Your order left our warehouse on Monday and should arrive tomorrow.",
    "m7": "We are sorry. A colleague will call you today.",
}


def _inbox_tools() -> Tools:
    return {
        "list_mails": tool(
            "The unread mails.",
            {"mails": [{"id": name, "subject": SUBJECTS[n]} for n, name in enumerate(BODIES)]},
            {"mails": listed(id="string", subject="string")},
        ),
        "read_mail": tool(
            "A mail.",
            lambda given: {"id": given["id"], "body": BODIES[given["id"]]},
            {"id": "string", "body": "string"},
            id="string",
        ),
        "reply_mail": tool("Reply to a mail.", "sent", effect="once", id="string", text="string"),
    }


async def _inbox(hands: Hands) -> str:
    listed_ = await hands.do("list_mails")
    await hands.each(*(hands.do("read_mail", id=one["id"]) for one in listed_["mails"]))
    await hands.each(*(hands.do("reply_mail", id=name, text=text) for name, text in REPLIES.items()))
    return "Three of the eight unread mails wanted a reply and have one."


INBOX = Task(
    "inbox",
    KIND,
    "Read my unread mails and reply to those that want a reply.",
    _inbox_tools,
    _inbox,
    *_parts(
        plan(
            step("step_1", "list_mails"),
            step(
                "step_2",
                "read_mail",
                with_={"for_each": "${step_1.output.mails}"},
                id="${item.id}",
            ),
            more="Reply to the mails that want a reply.",
        ),
        plan(
            *(
                step(f"step_{n}", "reply_mail", id=name, text=text)
                for n, (name, text) in enumerate(REPLIES.items(), 3)
            )
        ),
    ),
)

# ── a trip ────────────────────────────────────────────────────────────────────


def _flights(given: JsonObject) -> JsonObject:
    day, hours = given["day"], (6, 9, 13, 18)
    return {
        "flights": [
            {"id": f"{given['to']}-{day}-{hour}", "leaves": f"{hour:02}:10", "price": 60 + 11 * hour % 70}
            for hour in hours
        ]
    }


HOTELS = [
    {"id": f"h{n}", "name": name, "price": price, "said": said}
    for n, (name, price, said) in enumerate(
        [
            ("Terminus", 70, "loud at night, beside the station"),
            ("Giardino", 95, "quiet, a garden, ten minutes on foot from the fair"),
            ("Palazzo", 240, "very fine, in the old town"),
            ("Sole", 60, "far out, a bus every hour"),
        ],
        1,
    )
]


def _trip_tools() -> Tools:
    return {
        "search_flights": tool(
            "Flights of a day.",
            _flights,
            {"flights": listed(id="string", leaves="string", price="number")},
            secs=3,
            origin="string",
            to="string",
            day="string",
        ),
        "search_hotels": tool(
            "Hotels in a city.",
            {"hotels": HOTELS},
            {"hotels": listed(id="string", name="string", price="number", said="string")},
            secs=4,
            city="string",
        ),
        "book_flight": tool("Book a flight.", "booked", effect="once", secs=2, id="string"),
        "book_hotel": tool("Book a hotel.", "booked", effect="once", secs=2, id="string", nights="integer"),
    }


async def _trip(hands: Hands) -> str:
    await hands.each(
        hands.do("search_flights", origin="HAM", to="BLQ", day="2026-03-03"),
        hands.do("search_flights", origin="BLQ", to="HAM", day="2026-03-05"),
        hands.do("search_hotels", city="Bologna"),
    )
    await hands.each(
        hands.do("book_flight", id="BLQ-2026-03-03-9"),
        hands.do("book_flight", id="HAM-2026-03-05-18"),
        hands.do("book_hotel", id="h2", nights=2),
    )
    return "Booked: out on 3 March at 9:10, the quiet Giardino for two nights, back on 5 March at 18:10."


TRIP = Task(
    "trip",
    KIND,
    "Book my trip from Hamburg to the fair in Bologna, 3 to 5 March: not too early out, late back, a quiet hotel near the fair.",
    _trip_tools,
    _trip,
    *_parts(
        plan(
            step("step_1", "search_flights", origin="HAM", to="BLQ", day="2026-03-03"),
            step("step_2", "search_flights", origin="BLQ", to="HAM", day="2026-03-05"),
            step("step_3", "search_hotels", city="Bologna"),
            more="Book the flights and the hotel that fit best.",
        ),
        plan(
            step("step_4", "book_flight", id="BLQ-2026-03-03-9"),
            step("step_5", "book_flight", id="HAM-2026-03-05-18"),
            step("step_6", "book_hotel", id="h2", nights=2),
        ),
    ),
)

# ── a dispute, in three parts ─────────────────────────────────────────────────

CUSTOMERS = [
    {"id": "c17", "name": "Berg GmbH", "city": "Kiel", "what": "boats"},
    {"id": "c52", "name": "Berg & Sohn", "city": "Ulm", "what": "clocks"},
    {"id": "c80", "name": "Bergmann", "city": "Ulm", "what": "bakery"},
]
INVOICES = [
    {"id": f"i{n}", "day": f"2026-0{n}-11", "cents": cents, "text": text}
    for n, (cents, text) in enumerate(
        [
            (12000, "clock oil"),
            (48000, "40 springs at 1200"),
            (45000, "30 springs at 1200"),
            (9900, "a lens"),
        ],
        1,
    )
]
CREDIT = "The invoice has 30 springs at 12.00, which is 360.00; 90.00 have been credited."


def _dispute_tools() -> Tools:
    return {
        "find_customers": tool(
            "Customers by a part of their name.",
            {"customers": CUSTOMERS},
            {"customers": listed(id="string", name="string", city="string", what="string")},
            name="string",
        ),
        "list_invoices": tool(
            "The invoices of a customer.",
            {"invoices": INVOICES},
            {"invoices": listed(id="string", day="string", cents="integer", text="string")},
            customer="string",
        ),
        "credit": tool("Credit a sum on an invoice.", "ok", effect="once", invoice="string", cents="integer"),
        "write_letter": tool("Write to a customer.", "ok", effect="once", customer="string", text="string"),
    }


async def _dispute(hands: Hands) -> str:
    await hands.do("find_customers", name="Berg")
    await hands.do("list_invoices", customer="c52")
    await hands.do("credit", invoice="i3", cents=9000)
    await hands.do("write_letter", customer="c52", text=CREDIT)
    return "90.00 have been credited to Berg & Sohn."


DISPUTE = Task(
    "dispute",
    KIND,
    "The clockmaker Berg in Ulm says that an invoice is added up wrongly. Credit the difference and write to them.",
    _dispute_tools,
    _dispute,
    *_parts(
        plan(
            step("step_1", "find_customers", name="Berg"),
            more="Find the wrong invoice of the right customer, credit the difference, and write to them.",
        ),
        plan(
            step("step_2", "list_invoices", customer="c52"),
            more="Credit the difference on the wrong invoice, and write to the customer.",
        ),
        plan(
            step("step_3", "credit", invoice="i3", cents=9000),
            step("step_4", "write_letter", "step_3", customer="c52", text=CREDIT),
        ),
    ),
)

TASKS = (INCIDENT, INBOX, TRIP, DISPUTE)
