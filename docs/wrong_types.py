"""Mistakes that a type checker has to find in programs that use Replan; `docs.check_types` sees to it. Never run."""

from pydantic import BaseModel

from replan import Replan, run_sync


class Worth(BaseModel):
    euros: float


async def mistakes(replan: Replan) -> None:
    Replan(modle="openai:gpt")  # wrong
    Replan(success_treshold=70)  # wrong
    Replan(success_threshold="70")  # wrong
    Replan(approval="sometimes")  # wrong
    result = await replan.run("…", output_type=Worth)
    print(result.output.dollars)  # wrong
    await replan.run("…", timout=5)  # wrong
    await replan.run("…", evaluation="step")  # wrong
    run_sync("…", modle="local")  # wrong
    async for record in replan.watch(result.task_id):
        if record.event.type == "task_completed":
            print(record.event.final_output)
            print(record.event.final_outpt)  # wrong
