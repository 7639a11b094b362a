"""The workflow of one approval, as the server knows it."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue

# One copy for all that wait: what is not passed through is loaded again for every workflow in memory.
with workflow.unsafe.imports_passed_through():
    import workflows.steps as steps
    from workflows.life import Life
    from workflows.payloads import APPROVAL_WORKFLOW, WHOLE, Fault


# Dynamic, because only then does the SDK hand over any number of arguments of any encoding, unread: an argument that
# cannot be taken must fail the workflow at once, not its task for ever.
@workflow.defn(dynamic=True)
class ApprovalWorkflow:
    """Waits for the answer to one ask, runs the caller's activity after Allow, and answers the caller.

    Input: the ask of design section 5 as a JSON object, or `{"approval_id": "<id>"}` in the workflow `approval-<id>`
    of a row that exists. Fails with `InvalidAsk`, which names the field, and otherwise only when it is cancelled.
    """

    def __init__(self) -> None:
        self._life = Life()

    @workflow.signal
    def nudge(self) -> None:
        """Something happened to the row: read it again."""
        self._life.nudge()

    @workflow.run
    async def run(self, args: Sequence[RawValue]) -> RawValue:
        if workflow.info().workflow_type != APPROVAL_WORKFLOW:
            raise RuntimeError(f"no workflow of this type is served here; Placet's is {APPROVAL_WORKFLOW}")
        if len(args) != 1:
            raise steps.refused(
                Fault(field=WHOLE, problem=f"one JSON object is needed; there are {len(args)} arguments")
            )
        return await self._life.run(args[0])
