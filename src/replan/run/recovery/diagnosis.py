"""The recovery of one step, beside everything that does not depend on it (specification §6).

A failed call is diagnosed by a model, the proposal checked in code, and what is decided recorded; the executor
carries it out. Here nothing waits for a place: a step that is thought about holds none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from replan.core.calls.telling import what_is_done
from replan.core.events import OutcomeSettled, StepReflected
from replan.core.failures.faults import in_doubt
from replan.core.failures.signature import signature
from replan.core.ids import base_of, call_base
from replan.core.recovery import ladder
from replan.core.recovery.check_doubt import free_records, settled_output
from replan.core.recovery.check_proposal import violations
from replan.core.recovery.evidence import quoted, signs_of, sure
from replan.core.recovery.failed import Failed
from replan.core.recovery.known import stands_in
from replan.core.recovery.same_cause import known_remedy
from replan.core.references.refs import whole
from replan.core.reflection import RETRIES, ActionType, StepReflection, SuggestedAction
from replan.core.secrets import as_seen
from replan.core.state.step_recovery import Healing
from replan.core.state.task import CallState, Slot, StepState
from replan.core.types import Effect, Fault, JsonObject, ToolSpec
from replan.core.walk import texts_in
from replan.errors import ModelError
from replan.reasoning.diagnosis.reflector import StepProposal, reflect_on_step
from replan.run.calls.outline import Outline
from replan.run.calls.rivals import made_elsewhere
from replan.run.calls.shown import shown
from replan.run.session.context import Run
from replan.run.session.model_calls import RoleTalk
from replan.run.session.outputs import added_metadata
from replan.run.views.steps import failure_view, referred_paths, tools_for

NEVER_REFLECTED = frozenset({"approval", "expired", "question", "cancelled", "internal"})
"""Kinds of faults that no diagnosis mends: a person is needed, or we stopped it, or we are broken."""

ADVICE_ONLY = "a model's word that a call did not happen is advice for a person, and leads to no second call"


class Recovery:
    """The recoveries of one run of a plan."""

    __slots__ = ("_locks", "_run", "why")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._locks: dict[str, asyncio.Lock] = {}
        self.why: dict[str, str] = {}
        """Why code could not settle a call in doubt, by its key."""

    def lock(self, step: StepState) -> asyncio.Lock:
        """Held while a call of the step is thought about: failures of one step are recovered one by one."""
        return self._locks.setdefault(step.step.step_id, asyncio.Lock())

    def takes(self, step: StepState, fault: Fault, call: CallState | None) -> bool:
        """True if this failure is one to recover from, here and now: nothing else was decided for the whole step."""
        run = self._run
        if run.stopping or fault.kind in NEVER_REFLECTED:
            return False
        if self.is_in_doubt(fault, call):
            return True  # code may be able to settle it
        if not run.state.heals:
            return False
        decided = step.healing.pending.values() if step.healing is not None else ()
        given_up = any(action.type in ("replan", "trigger_overall_reflection") for action in decided)
        if step.step.allow_failed_items:  # each item is given up by itself
            given_up = False
        return run.state.escalation is None and not given_up

    def is_in_doubt(self, fault: Fault, call: CallState | None) -> bool:
        """True if nobody knows whether the failed call took effect."""
        if call is not None and call.status == "unknown":
            return True
        if fault.kind == "in_doubt":
            return True
        tool = self._run.parts.tools.resolve(call.tool_id) if call is not None else None
        return tool is not None and in_doubt(fault, tool)

    def _is_advice(self, action: SuggestedAction) -> bool:
        """True if a model says that a call did not happen, and that is no ground to make it again."""
        said_no = action.type == "settle_outcome" and not action.data.get("happened")
        return said_no and not self._run.state.policy.trust_model_settlement

    # ── diagnosis ──

    async def decide(self, step: StepState, slot: Slot, fault: Fault, meant: Outline) -> SuggestedAction:
        """What is done about a failed call: what was decided before a crash, or what is decided now."""
        state = self._run.state
        mine = step.healing or Healing()
        if (waiting := mine.pending.get(slot)) is not None:
            return waiting
        call = step.calls.get(slot)
        doubt = self.is_in_doubt(fault, call)
        probe = self._failure(step, slot, fault, meant, mine, doubt)
        counted = mine.with_failure(probe)
        if doubt:
            asks = state.policy.approval == "all"  # a reading would have to be agreed to as well
            readers = not asks and any(tool.may_verify for tool in self._run.parts.tools.specs())
            allowed = ladder.doubt_actions(mine, slot, readers=readers and fault.kind != "in_doubt")
            of = self._run.parts.tools.resolve(call.tool_id) if call is not None else None
            if of is not None and of.verify is not None:  # then code alone decides
                allowed = ("trigger_overall_reflection",)
        else:
            allowed = ladder.open_actions(state, counted, slot)
            no_list = step.step.for_each is not None and slot.item is None
            if no_list or fault.kind == "condition":  # no call is at fault: there is none to try otherwise
                allowed = tuple(name for name in allowed if name not in RETRIES)
        if not doubt and ladder.too_many_in_a_row(state, counted, slot):
            advice = f"{len(counted.failures(slot))} tries of step {step.step.step_id!r} failed in a row: {fault.message}"
            return self._record(
                probe, SuggestedAction(type="replan", data={"advice": advice}), "code",
                "consecutive_failure_threshold is reached",
            )  # fmt: skip
        if len(allowed) == 1:
            reason = self.why.get(call.key, "") if call is not None and doubt else ""
            reason = reason or "nothing new is left to try"
            summary = f"{reason} for step {step.step.step_id!r}: {fault.message}"
            action = SuggestedAction(type=allowed[0], data={"summary": summary})
            return self._record(probe, action, "code", reason)
        failed = self._failed(step, slot, meant, allowed, counted, doubt)
        if not doubt and (known := known_remedy(step, slot, probe, meant.planned)) is not None:
            taken = StepReflection(root_cause_category="unknown", suggested_action=known.action)
            if not violations(taken, failed):
                why = f"as for {known.of.slot.words()}, which failed in the same way"
                return self._record(probe, known.action, "code", why)
        talk = RoleTalk(self._run, "reflection")
        view = failure_view(
            self._run, step, slot, fault, meant, allowed=allowed, healing=counted, in_doubt=doubt,
            style=talk.style,
        )  # fmt: skip
        try:
            found = await reflect_on_step(talk, view, lambda proposal: violations(proposal, failed))
        except ModelError as error:
            found = StepProposal(None, None, (), (str(error),))
        if found.last is not None and not found.left:
            if self._is_advice(found.last.suggested_action):
                summary = (
                    f"a reading speaks for its not having happened: {found.last.suggested_action.words()}"
                )
                told = SuggestedAction(type="trigger_overall_reflection", data={"summary": summary})
                return self._record(probe, told, "code", ADVICE_ONLY, found)
            return self._record(probe, found.last.suggested_action, "model", "", found)
        words = found.last.root_cause if found.last is not None and found.last.root_cause else fault.message
        return self._record(probe, ladder.safest(allowed, words), "code", "; ".join(found.left[:5]), found)

    def _failure(
        self, step: StepState, slot: Slot, fault: Fault, meant: Outline, mine: Healing, doubt: bool
    ) -> StepReflected:
        """The failure as it is recorded, with nothing decided yet."""
        call = step.calls.get(slot)
        tool = meant.tool
        base = base_of(call.key) if call is not None else ""
        if not base:
            state = self._run.state
            base = (
                state.base(tool, meant.parameters)
                if tool is not None
                else call_base(state.keyed_by, meant.name, meant.parameters)
            )
        if fault.kind == "repeated":
            base = ""  # not tried: it was not made, and may be if it is meant
        latest = mine.latest(slot)
        read_since = doubt and latest is not None and latest.action.type == "verify_outcome"
        limit = self._run.state.policy.max_output_bytes
        return StepReflected(
            step_id=step.step.step_id,
            action_id=slot.action_id,
            index=slot.item,
            tool_id=tool.id if tool is not None else meant.name,
            parameters=meant.parameters
            if tool is None
            else shown(tool, meant.parameters, limit, self._run.secrets),
            base=base,
            call_key=call.key if call is not None else None,
            error=fault,
            signature=signature(tool.id if tool is not None else meant.name, fault, tool, meant.parameters),
            fresh=not read_since,
            action=SuggestedAction(type="trigger_overall_reflection"),
        )

    def _failed(
        self, step: StepState, slot: Slot, meant: Outline, allowed: tuple[ActionType, ...],
        counted: Healing, doubt: bool,
    ) -> Failed:  # fmt: skip
        call = step.calls.get(slot)
        paths = [path for raws in referred_paths(self._run, step.step.step_id).values() for path in raws]
        return Failed(
            task_id=self._run.state.keyed_by,
            step_id=step.step.step_id,
            slot=slot,
            tool=meant.tool,
            parameters=meant.parameters,
            planned=meant.planned,
            may=self._planned_effect(step, slot),
            metadata=self._run.state.metadata_of(step.step.step_id),
            allowed=allowed,
            healing=counted,
            available=self._available(),
            in_doubt=doubt,
            elsewhere=self._elsewhere(step, slot, meant) if doubt else (),
            key=call.key if call is not None else "",
            since=call.first if call is not None else None,
            seal_key=self._run.state.seal_key,
            claims=self._claims(call) if doubt else (),
            given=self._given(call) if doubt else (),
            others=self._others(call) if doubt else (),
            is_done=lambda tool, parameters: self._run.state.ledger.is_done(
                self._run.state.base(tool, parameters)
            ),
            made_elsewhere=lambda tool, parameters: made_elsewhere(
                step, slot, tool, parameters, self._run.state, self._run.parts.tools
            ),
            stands=stands_in(self._run.state),
            wanted=meant.tool.output_schema if meant.tool is not None else None,
            references=_simple_paths(paths) if not step.step.actions and step.step.for_each is None else (),
        )

    def _planned_effect(self, step: StepState, slot: Slot) -> Effect | None:
        name = step.step.tool if slot.action_id is None else step.action(slot.action_id).tool
        tool = self._run.parts.tools.resolve(name)
        return tool.effect if tool is not None else self._run.state.effect_of_gone(name)

    def _elsewhere(self, step: StepState, slot: Slot, meant: Outline) -> set[str]:
        """Texts that succeeded calls of the same tool were made with."""
        state = self._run.state
        return {
            text
            for one in (*state.earlier.values(), *state.steps.values())
            for at, call in one.calls.items()
            if call.tool_id == meant.name and call.status == "succeeded" and (one is not step or at != slot)
            for text in texts_in(call.parameters)
        }

    def _claims(self, call: CallState | None) -> list[str]:
        """Records that have settled other calls."""
        own = call.key if call is not None else ""
        return [record for key, record in self._run.state.records.items() if key != own]

    def _given(self, call: CallState | None) -> list[Any]:
        """What the very same calls have given that succeeded by themselves."""
        state = self._run.state
        return [
            one.output.value if one.output is not None else None
            for one in state.took_effect.values()
            if call is not None
            and one.key not in state.records
            and (one.tool_id, one.parameters) == (call.tool_id, call.parameters)
        ]

    def _others(self, call: CallState | None) -> list[tuple[JsonObject, Any]]:
        """Other calls of the tool that succeeded by themselves: what they were made with, and have given."""
        state = self._run.state
        tool = self._run.parts.tools.resolve(call.tool_id) if call is not None else None
        return [
            (what_is_done(tool, one.parameters), one.output.value if one.output is not None else None)
            for one in state.took_effect.values()
            if call is not None
            and one.key not in state.records
            and one.tool_id == call.tool_id
            and one.parameters != call.parameters
        ]

    def _available(self) -> Mapping[str, ToolSpec]:
        return {tool.id: tool for tool in tools_for(self._run)}

    def _record(
        self, probe: StepReflected, action: SuggestedAction, by: str, reason: str,
        found: StepProposal | None = None,
    ) -> SuggestedAction:  # fmt: skip
        sent_back = found is not None and bool(found.violations)
        self._run.record(
            probe.model_copy(
                update={
                    "action": action,
                    "by": by,
                    "reason": reason,
                    "proposal": found.last if found is not None else None,
                    "first_proposal": found.first if found is not None and sent_back else None,
                    "violations": found.violations if found is not None else (),
                }
            )
        )
        return action

    # ── calls in doubt ──

    def settle(self, step: StepState, slot: Slot, action: SuggestedAction) -> JsonObject | None:
        """Record what a reading has shown. Metadata of a call that has happened; None: it may be made.

        `Taken` if the record that shows it has settled another call meanwhile.
        """
        call = step.calls[slot]
        readings = (step.healing or Healing()).shown(slot)
        tool = self._run.parts.tools.resolve(call.tool_id)
        happened = bool(action.data.get("happened"))
        by = f"a reading by {readings[-1].tool_id!r}" if readings else ""
        output, record = None, ""
        if happened:
            known_by = what_is_done(tool, call.parameters)
            signs = signs_of(readings, call.key, known_by, (), call.first)
            mine = sure(quoted(signs, str(action.data.get("evidence") or "")))
            free = free_records(
                mine, readings, known_by, self._claims(call), self._given(call), self._others(call)
            )
            if mine and not free:
                raise Taken
            shown = free[0].output if free else None
            record = free[0].record if free else ""
            output = settled_output(action, tool.output_schema if tool else None, shown)
        output, masked = as_seen(output) if self._run.state.hides else (output, False)
        self._run.record(
            OutcomeSettled(
                call_key=call.key, step_id=call.step_id, action_id=slot.action_id, index=slot.item,
                attempt=call.attempt, tool_id=call.tool_id, happened=happened, output=output, by=by, record=record,
                masked=masked,
            )
        )  # fmt: skip
        return added_metadata(tool, output) if happened else None


class Taken(Exception):
    """The record that shows a call has settled another one while this was thought about."""


def _simple_paths(raws: list[str]) -> tuple[str, ...]:
    found = [ref.path for raw in raws if (ref := whole(raw)) is not None and ref.action is None and ref.path]
    return tuple(dict.fromkeys(found))
