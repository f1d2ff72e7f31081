"""The export format `call_names`: the names of the calls of each trajectory."""

from typing import Any

from rollout.trajectories.exports.exporter import Example, JsonLinesExporter, Unfit


class CallNames(JsonLinesExporter):
    def convert(self, example: Example) -> dict[str, Any]:
        names = [call.name for message in example.messages for call in message.tool_calls]
        if not names:
            raise Unfit("no calls")
        return {"id": example.id, "success": example.success, "calls": names}
