"""Tasks that do the same with many things."""

from __future__ import annotations

from bench.plans.hands import Hands
from bench.plans.task import Task, Tools, action, actions, listed, plan, record, step, tool
from replan.core.types import JsonObject

SEVERAL = "several things with each item"

# ── invoices for orders ───────────────────────────────────────────────────────


def _orders(count: int) -> list[JsonObject]:
    return [{"id": f"A-{n}", "customer": f"c{n}", "total": 20.0 + n} for n in range(1, count + 1)]


def _billing_tools(orders: list[JsonObject]) -> Tools:
    return {
        "list_orders": tool(
            "The orders that have no invoice yet.",
            {"orders": orders},
            {"orders": listed(id="string", customer="string", total="number")},
        ),
        "get_customer": tool(
            "A customer.",
            lambda given: {"id": given["id"], "email": f"{given['id']}@example.org"},
            {"id": "string", "email": "string"},
            id="string",
        ),
        "write_invoice": tool(
            "Write an invoice.",
            lambda given: {"number": f"R-{given['order']}"},
            {"number": "string"},
            effect="once",
            secs=2,
            order="string",
            to="string",
            total="number",
        ),
        "send_mail": tool("Send a mail.", "sent", effect="once", to="string", text="string"),
    }


async def _billing(hands: Hands) -> str:
    async def one(order: JsonObject) -> None:
        customer = await hands.do("get_customer", id=order["customer"])
        bill = await hands.do("write_invoice", order=order["id"], to=customer["email"], total=order["total"])
        await hands.do("send_mail", to=customer["email"], text=f"Your invoice is {bill['number']}")

    orders = (await hands.do("list_orders"))["orders"]
    await hands.each(*map(one, orders))
    return "The invoices are written and sent."


def _billing_written_out(orders: list[JsonObject]) -> list[JsonObject]:
    steps: list[JsonObject] = []
    for at, order in enumerate(orders):
        customer, bill, mail = (f"step_{2 + at * 3 + n}" for n in range(3))
        to = f"${{{customer}.output.email}}"
        steps += [
            step(customer, "get_customer", id=order["customer"]),
            step(bill, "write_invoice", order=order["id"], to=to, total=order["total"]),
            step(mail, "send_mail", to=to, text=f"Your invoice is ${{{bill}.output.number}}"),
        ]
    return steps


def billing(count: int) -> Task:
    """With so many orders."""
    orders = _orders(count)
    return Task(
        f"invoices for {count} orders",
        SEVERAL,
        "Write the invoice of each order that has none, and mail its number to the customer.",
        lambda: _billing_tools(orders),
        _billing,
        before=[plan(step("step_1", "list_orders")), plan(*_billing_written_out(orders))],
        now=[
            plan(
                step("step_1", "list_orders"),
                actions(
                    "step_2",
                    "${step_1.output.orders}",
                    action("customer", "get_customer", id="${item.customer}"),
                    action(
                        "bill",
                        "write_invoice",
                        order="${item.id}",
                        to="${customer.output.email}",
                        total="${item.total}",
                    ),
                    action(
                        "mail",
                        "send_mail",
                        to="${customer.output.email}",
                        text="Your invoice is ${bill.output.number}",
                    ),
                ),
            )
        ],
    )


# ── accounts for new colleagues ───────────────────────────────────────────────

NAMES = ["Ada", "Bela", "Chiara", "Dorian", "Elif", "Femi"]


def _hire_tools() -> Tools:
    return {
        "list_hires": tool(
            "Who begins on a day.",
            {"hires": [{"name": name, "team": f"team-{n % 3}"} for n, name in enumerate(NAMES)]},
            {"hires": listed(name="string", team="string")},
            day="string",
        ),
        "create_account": tool(
            "Make an account.",
            lambda given: {"user": given["name"].lower(), "link": f"https://example.org/{given['name']}"},
            {"user": "string", "link": "string"},
            effect="once",
            secs=3,
            name="string",
        ),
        "add_to_team": tool("Add a user to a team.", "ok", effect="once", user="string", team="string"),
        "send_letter": tool("Send a letter.", "ok", effect="once", secs=2, to="string", text="string"),
    }


async def _hires(hands: Hands) -> str:
    async def one(hire: JsonObject) -> None:
        made = await hands.do("create_account", name=hire["name"])
        await hands.each(
            hands.do("add_to_team", user=made["user"], team=hire["team"]),
            hands.do("send_letter", to=hire["name"], text=f"Welcome! Begin at {made['link']}"),
        )

    await hands.each(*map(one, (await hands.do("list_hires", day="2026-02-01"))["hires"]))
    return "Six colleagues have accounts, teams and letters."


def _hires_written_out() -> list[JsonObject]:
    steps: list[JsonObject] = []
    for at, name in enumerate(NAMES):
        made, team, letter = (f"step_{2 + at * 3 + n}" for n in range(3))
        steps += [
            step(made, "create_account", name=name),
            step(team, "add_to_team", user=f"${{{made}.output.user}}", team=f"team-{at % 3}"),
            step(letter, "send_letter", to=name, text=f"Welcome! Begin at ${{{made}.output.link}}"),
        ]
    return steps


HIRES = Task(
    "accounts for colleagues",
    SEVERAL,
    "Give everybody who begins on 1 February 2026 an account, add them to their teams, and write them where to begin.",
    _hire_tools,
    _hires,
    before=[plan(step("step_1", "list_hires", day="2026-02-01")), plan(*_hires_written_out())],
    now=[
        plan(
            step("step_1", "list_hires", day="2026-02-01"),
            actions(
                "step_2",
                "${step_1.output.hires}",
                action("account", "create_account", name="${item.name}"),
                action("team", "add_to_team", user="${account.output.user}", team="${item.team}"),
                action(
                    "letter",
                    "send_letter",
                    to="${item.name}",
                    text="Welcome! Begin at ${account.output.link}",
                ),
            ),
        )
    ],
)

# ── a list that stands in the task ────────────────────────────────────────────

CITIES = ["Oslo", "Rome", "Kyiv", "Lima", "Accra", "Quito", "Hanoi", "Cairo"]


def _weather(city: str) -> JsonObject:
    return {"city": city, "degrees": CITIES.index(city) * 5 - 3}


def _weather_tools() -> Tools:
    return {
        "weather": tool(
            "The weather in a city.",
            lambda given: _weather(given["city"]),
            {"city": "string", "degrees": "number"},
            secs=2,
            city="string",
        ),
        "save_report": tool(
            "Save a report.",
            "ok",
            effect="once",
            rows={"type": "array", "items": record(city="string", degrees="number")},
        ),
    }


async def _cities(hands: Hands) -> str:
    rows = await hands.each(*(hands.do("weather", city=city) for city in CITIES))
    await hands.do("save_report", rows=list(rows))
    return "The report has the weather of eight cities."


WEATHER = Task(
    "weather of cities",
    "a list in the plan",
    f"Save a report of the weather in {', '.join(CITIES)}.",
    _weather_tools,
    _cities,
    before=[
        plan(
            *(step(f"step_{n}", "weather", city=city) for n, city in enumerate(CITIES, 1)),
            step("step_9", "save_report", rows=[f"${{step_{n}.output}}" for n in range(1, 9)]),
        )
    ],
    now=[
        plan(
            step("step_1", "weather", with_={"for_each": CITIES}, city="${item}"),
            step("step_2", "save_report", rows="${step_1.output}"),
        )
    ],
)

TASKS = (billing(9), billing(60), HIRES, WEATHER)
