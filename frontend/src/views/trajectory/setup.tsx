/** What the agent was given: the system prompt and the tools as sent, and what scorers know of the task. */

import type { VNode } from "preact";
import { plural } from "../../format";
import { JsonView } from "../../parts/json";
import { isRequired, propertiesOf, readTool, typeWords } from "../../parts/schema_form";
import { LongText } from "../../parts/text";
import type { Json, TrajectoryPage } from "../../types";

export function SetupPanel({ page }: { page: TrajectoryPage }): VNode {
  return (
    <div class="panel is-columns">
      <section>
        <h2>System prompt</h2>
        {page.system ? <LongText text={page.system} /> : <p class="hint">None was sent.</p>}
        {page.brief && (
          <>
            <h2>Brief of the user</h2>
            <LongText text={page.brief} />
          </>
        )}
        {page.task && (
          <>
            <h2>Task</h2>
            <p class="hint">The agent does not see this.</p>
            {page.task.actions && <JsonView value={page.task.actions} />}
            {page.task.info && <JsonView value={page.task.info} />}
          </>
        )}
      </section>
      <section>
        <h2>{plural(page.tools.length, "tool")}</h2>
        {page.tools.map((tool) => (
          <ToolView tool={tool} />
        ))}
      </section>
    </div>
  );
}

function ToolView({ tool }: { tool: Json }): VNode {
  const read = readTool(tool);
  if (!read) return <JsonView value={tool} />;
  const properties = propertiesOf(read.parameters);
  return (
    <details class="tool">
      <summary>
        <span class="call-name">{read.name}</span> <small>{properties.map(([name]) => (isRequired(read.parameters, name) ? name : `${name}?`)).join(", ")}</small>
        {read.description && <span class="tool-description">{read.description}</span>}
      </summary>
      {properties.length > 0 && (
        <table class="plain">
          <tbody>
            {properties.map(([name, schema]) => (
              <tr>
                <th scope="row" class="mono">
                  {name}
                  {isRequired(read.parameters, name) ? "" : "?"}
                </th>
                <td class="mono">{typeWords(schema)}</td>
                <td>{typeof schema.description === "string" ? schema.description : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <details>
        <summary>Schema</summary>
        <JsonView value={tool} />
      </details>
    </details>
  );
}
