"""Tasks whose values have to be chosen, counted or worked out from what tools give."""

from __future__ import annotations

from bench.plans.hands import Hands
from bench.plans.task import Task, Tools, listed, plan, step, tool
from replan.core.types import JsonObject

# ── functions ─────────────────────────────────────────────────────────────────

OFFERS: list[JsonObject] = [
    {"id": f"o{n}", "seller": f"Seller {n}", "price": 100 + n * 37 % 50, "days": 1 + n * 5 % 7}
    for n in range(1, 13)
]
CHEAPEST = min((one for one in OFFERS if one["days"] <= 3), key=lambda one: one["price"])["id"]


def _offer_tools() -> Tools:
    return {
        "list_offers": tool(
            "The offers for an article.",
            {"offers": OFFERS},
            {"offers": listed(id="string", seller="string", price="number", days="integer")},
            article="string",
        ),
        "order": tool("Order by an offer.", "ordered", effect="once", offer="string", count="integer"),
    }


async def _offer(hands: Hands) -> str:
    await hands.do("list_offers", article="FX-2 filter")
    await hands.do("order", offer=CHEAPEST, count=2)
    return f"Two FX-2 filters are ordered by the offer {CHEAPEST}."


OFFER = Task(
    "cheapest offer",
    "functions",
    "Order two FX-2 filters from whoever is cheapest of those who deliver within three days.",
    _offer_tools,
    _offer,
    before=[
        plan(step("step_1", "list_offers", article="FX-2 filter")),
        plan(step("step_2", "order", offer=CHEAPEST, count=2)),
    ],
    now=[
        plan(
            step("step_1", "list_offers", article="FX-2 filter"),
            step(
                "step_2", "order", offer="${min_by(step_1.output.offers[?days <= `3`], &price).id}", count=2
            ),
        )
    ],
)

INVOICES = [
    {"number": f"R-{n}", "customer": f"Customer {n}", "status": "overdue" if n % 4 == 0 else "paid"}
    for n in range(101, 119)
]
OVERDUE = [one["number"] for one in INVOICES if one["status"] == "overdue"]
MESSAGE = f"{len(OVERDUE)} invoices are overdue: {', '.join(OVERDUE)}"


def _overdue_tools() -> Tools:
    return {
        "list_invoices": tool(
            "The invoices of a month.",
            {"invoices": INVOICES},
            {"invoices": listed(number="string", customer="string", status="string")},
            month="string",
        ),
        "post_message": tool("Post to a channel.", "ok", effect="once", channel="string", text="string"),
    }


async def _overdue(hands: Hands) -> str:
    await hands.do("list_invoices", month="2026-01")
    await hands.do("post_message", channel="finance", text=MESSAGE)
    return MESSAGE


OVERDUES = Task(
    "overdue invoices",
    "functions",
    "Post to the channel finance how many invoices of January 2026 are overdue, and which.",
    _overdue_tools,
    _overdue,
    before=[
        plan(step("step_1", "list_invoices", month="2026-01")),
        plan(step("step_2", "post_message", channel="finance", text=MESSAGE)),
    ],
    now=[
        plan(
            step("step_1", "list_invoices", month="2026-01"),
            step(
                "step_2",
                "post_message",
                channel="finance",
                text="${step_1.output.invoices[?status == 'overdue'] | length(@)} invoices are overdue: "
                "${step_1.output.invoices[?status == 'overdue'].number | join(', ', @)}",
            ),
        )
    ],
)

# ── expressions ───────────────────────────────────────────────────────────────


def _invoice_tools() -> Tools:
    return {
        "get_order": tool(
            "An order, with its total in dollars before tax.",
            {"id": "A-9", "customer": "c3", "total": 1249.5},
            {"id": "string", "customer": "string", "total": "number"},
            id="string",
        ),
        "exchange_rate": tool(
            "The rate of a day.", {"rate": 0.9137}, {"rate": "number"}, secs=2, pair="string"
        ),
        "create_invoice": tool("Write an invoice.", "ok", effect="once", customer="string", euros="number"),
    }


async def _invoice(hands: Hands) -> str:
    await hands.each(hands.do("get_order", id="A-9"), hands.do("exchange_rate", pair="USD/EUR"))
    await hands.do("create_invoice", customer="c3", euros=1358.59)
    return "The invoice is over 1358.59 euros."


READ_ORDER = (
    step("step_1", "get_order", id="A-9"),
    step("step_2", "exchange_rate", pair="USD/EUR"),
)
INVOICE = Task(
    "invoice in euros",
    "expressions",
    "Write the invoice for order A-9 in euros, at today's rate, with 19 % tax.",
    _invoice_tools,
    _invoice,
    before=[plan(*READ_ORDER), plan(step("step_3", "create_invoice", customer="c3", euros=1358.59))],
    now=[
        plan(
            *READ_ORDER,
            step(
                "step_3",
                "create_invoice",
                customer="${step_1.output.customer}",
                euros="${= round(step_1.output.total * step_2.output.rate * 1.19, 2) }",
            ),
        )
    ],
)


def _notice_tools() -> Tools:
    return {
        "get_contract": tool(
            "A contract.",
            {"id": "V-4", "title": "Lease, Hafenstr. 3", "ends": "2027-05-31", "notice_months": 3},
            {"id": "string", "title": "string", "ends": "string", "notice_months": "integer"},
            id="string",
        ),
        "add_reminder": tool("Add a reminder.", "ok", effect="once", day="string", text="string"),
    }


async def _notice(hands: Hands) -> str:
    await hands.do("get_contract", id="V-4")
    await hands.do("add_reminder", day="2027-02-14", text="Give notice of Lease, Hafenstr. 3")
    return "You will be reminded on 14 February 2027."


NOTICE = Task(
    "notice of a contract",
    "expressions",
    "Remind me two weeks before notice of contract V-4 has to be given.",
    _notice_tools,
    _notice,
    before=[
        plan(step("step_1", "get_contract", id="V-4")),
        plan(step("step_2", "add_reminder", day="2027-02-14", text="Give notice of Lease, Hafenstr. 3")),
    ],
    now=[
        plan(
            step("step_1", "get_contract", id="V-4"),
            step(
                "step_2",
                "add_reminder",
                day="${= add_months(date(step_1.output.ends), 0 - step_1.output.notice_months) - days(14) }",
                text="Give notice of ${step_1.output.title}",
            ),
        )
    ],
)

STOCK: list[JsonObject] = [{"sku": f"s{n}", "count": n * 7 % 20, "target": 10} for n in range(1, 16)]
SHORT = [one for one in STOCK if one["count"] < one["target"]]


def _stock_tools() -> Tools:
    return {
        "list_stock": tool(
            "What there is of everything, and how much there should be.",
            {"articles": STOCK},
            {"articles": listed(sku="string", count="integer", target="integer")},
        ),
        "reorder": tool("Order an article.", "ok", effect="once", sku="string", count="integer"),
    }


async def _stock(hands: Hands) -> str:
    await hands.do("list_stock")
    await hands.each(
        *(hands.do("reorder", sku=one["sku"], count=one["target"] - one["count"]) for one in SHORT)
    )
    return f"{len(SHORT)} articles are reordered."


REORDER = Task(
    "reorder",
    "expressions",
    "Order what is missing of every article of which there is less than there should be.",
    _stock_tools,
    _stock,
    before=[
        plan(step("step_1", "list_stock")),
        plan(
            *(
                step(f"step_{n}", "reorder", sku=one["sku"], count=one["target"] - one["count"])
                for n, one in enumerate(SHORT, 2)
            )
        ),
    ],
    now=[
        plan(
            step("step_1", "list_stock"),
            step(
                "step_2",
                "reorder",
                with_={"for_each": "${step_1.output.articles[?count < target]}"},
                sku="${item.sku}",
                count="${= item.target - item.count }",
            ),
        )
    ],
)

# ── a join ────────────────────────────────────────────────────────────────────

PRODUCTS = [{"product": f"p{n}", "sku": f"x{n}"} for n in range(10)]
COSTS = [{"sku": f"x{n}", "cost": 8.0 + n * 3} for n in reversed(range(12))]
PRICES = {f"p{n}": round((8.0 + n * 3) * 1.4, 2) for n in range(10)}


def _price_tools() -> Tools:
    return {
        "list_products": tool(
            "Our products.", {"products": PRODUCTS}, {"products": listed(product="string", sku="string")}
        ),
        "list_costs": tool(
            "What the supplier takes for each article.",
            {"costs": COSTS},
            {"costs": listed(sku="string", cost="number")},
            secs=2,
        ),
        "set_price": tool("Set a product's price.", "ok", effect="once", product="string", price="number"),
    }


async def _prices(hands: Hands) -> str:
    await hands.each(hands.do("list_products"), hands.do("list_costs"))
    await hands.each(*(hands.do("set_price", product=name, price=price) for name, price in PRICES.items()))
    return "Ten prices are set."


READ_LISTS: tuple[JsonObject, ...] = (step("step_1", "list_products"), step("step_2", "list_costs"))
JOIN = Task(
    "prices by two lists",
    "a join of two lists",
    "Set the price of each of our products to 1.4 times what the supplier takes for it.",
    _price_tools,
    _prices,
    before=[
        plan(*READ_LISTS),
        plan(
            *(
                step(f"step_{n}", "set_price", product=name, price=price)
                for n, (name, price) in enumerate(PRICES.items(), 3)
            )
        ),
    ],
    now=[
        plan(
            *READ_LISTS,
            step(
                "step_3",
                "set_price",
                with_={"for_each": "${= merge_by(step_1.output.products, step_2.output.costs, 'sku') }"},
                product="${item.product}",
                price="${= round(item.cost * 1.4, 2) }",
            ),
        )
    ],
)

# ── what is in a database ─────────────────────────────────────────────────────

FIRST_ROWS = [
    {"no": 8001, "st": "OUT", "due": "2026-01-11", "zip": "24103"},
    {"no": 8002, "st": "LATE", "due": "2026-01-09", "zip": "24937"},
    {"no": 8003, "st": "DONE", "due": "2026-01-10", "zip": "24103"},
]
LOOK = "SELECT * FROM parcel LIMIT 3"
LATE = "SELECT zip, count(*) AS n FROM parcel WHERE st = 'LATE' GROUP BY zip"
BY_ZIP = [{"zip": "24103", "n": 4}, {"zip": "24937", "n": 9}]


def _parcel_tools() -> Tools:
    given = {LOOK: FIRST_ROWS, LATE: BY_ZIP}
    return {
        "query": tool(
            "Ask the database of parcels, whose table is `parcel`.",
            lambda asked: {"rows": given[asked["sql"]]},
            {"rows": "array"},
            secs=2,
            sample={"parcel": FIRST_ROWS},
            sql="string",
        ),
        "save_report": tool("Save a report.", "ok", effect="once", name="string", rows="array"),
    }


async def _parcels(hands: Hands) -> str:
    rows = (await hands.do("query", sql=LATE))["rows"]
    await hands.do("save_report", name="late", rows=rows)
    return "The report has the late parcels of two districts."


SAMPLE = Task(
    "late parcels",
    "a sample of the data",
    "Save a report late of how many parcels are late in each zip code.",
    _parcel_tools,
    _parcels,
    before=[
        plan(step("step_1", "query", sql=LOOK)),
        plan(
            step("step_2", "query", sql=LATE),
            step("step_3", "save_report", name="late", rows="${step_2.output.rows}"),
        ),
    ],
    now=[
        plan(
            step("step_1", "query", sql=LATE),
            step("step_2", "save_report", name="late", rows="${step_1.output.rows}"),
        )
    ],
)

TASKS = (OFFER, OVERDUES, INVOICE, NOTICE, REORDER, JOIN, SAMPLE)
