/** JSON as people read it: one line a key, short values on one line, lists of like objects as a table. */

import type { ComponentChildren, VNode } from "preact";
import { plural } from "../format";
import type { Json, JsonObject } from "../types";
import { Clip, LongText } from "./text";

const MOST_INLINE = 72;
const MOST_COLUMNS = 8;
const MOST_SIZE = 1600;
const MOST_LINES = 16;
const MOST_ROWS = 300;

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function JsonView({ value }: { value: Json }): VNode {
  const size = JSON.stringify(value)?.length ?? 0;
  const lines = linesOf(value);
  return (
    <Clip isLong={size > MOST_SIZE || lines > MOST_LINES} label={lines > MOST_LINES ? plural(lines, "line") : plural(size, "character")}>
      <div class="json">
        <Value value={value} />
      </div>
    </Clip>
  );
}

/** About how many lines a value takes. */
function linesOf(value: Json): number {
  if (!isBlock(value)) return 1;
  if (Array.isArray(value) && columnsOf(value)) return value.length + 1;
  return Object.values(value as JsonObject).reduce<number>((sum, each) => sum + linesOf(each) + (isBlock(each) ? 1 : 0), 0);
}

/** Text that is JSON is shown as such, everything else as text. */
export function ResultText({ text }: { text: string }): VNode {
  const value = readJson(text);
  return value === undefined ? <LongText text={text} isMono /> : <JsonView value={value} />;
}

export function readJson(text: string): Json | undefined {
  if (!/^\s*[[{]/.test(text) || text.length > 1_000_000) return undefined;
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

function Value({ value }: { value: Json }): VNode {
  if (Array.isArray(value)) return <List values={value} />;
  if (isObject(value)) return <Fields value={value} />;
  return <Scalar value={value} />;
}

function Scalar({ value }: { value: Exclude<Json, Json[] | JsonObject> }): VNode {
  if (typeof value === "string") return <span class="j-string">{value === "" ? '""' : value}</span>;
  return <span class={value === null ? "j-null" : "j-number"}>{String(value)}</span>;
}

function Fields({ value }: { value: JsonObject }): VNode {
  const names = Object.keys(value);
  if (!names.length) return <span class="j-null">{"{}"}</span>;
  return (
    <div class="j-fields">
      {names.slice(0, MOST_ROWS).map((name) => (
        <div class={isBlock(value[name] ?? null) ? "j-field is-block" : "j-field"}>
          <span class="j-key">{name}</span>
          <Value value={value[name] ?? null} />
        </div>
      ))}
      {names.length > MOST_ROWS && <div class="j-null">… {plural(names.length - MOST_ROWS, "key")} more</div>}
    </div>
  );
}

function List({ values }: { values: Json[] }): VNode {
  if (!values.length) return <span class="j-null">[]</span>;
  if (!isBlock(values)) {
    const parts: ComponentChildren[] = [];
    values.forEach((value, place) => parts.push(place > 0 && <span class="j-null">, </span>, <Value value={value} />));
    return <span>{parts}</span>;
  }
  const columns = columnsOf(values);
  if (columns) return <Table columns={columns} rows={values as JsonObject[]} />;
  return (
    <ol class="j-list">
      {values.slice(0, MOST_ROWS).map((value) => (
        <li>
          <Value value={value} />
        </li>
      ))}
      {values.length > MOST_ROWS && <li class="j-null">… {plural(values.length - MOST_ROWS, "entry", "entries")} more</li>}
    </ol>
  );
}

function Table({ columns, rows }: { columns: string[]; rows: JsonObject[] }): VNode {
  return (
    <div class="j-table" tabIndex={0} role="group" aria-label={`Table of ${plural(rows.length, "row")}`}>
      <table>
        <thead>
          <tr>
            {columns.map((name) => (
              <th scope="col">{name}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, MOST_ROWS).map((row) => (
            <tr>
              {columns.map((name) => (
                <td>{row[name] === undefined ? "" : <Value value={row[name] ?? null} />}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {rows.length > MOST_ROWS && <p class="j-null">… {plural(rows.length - MOST_ROWS, "row")} more</p>}
    </div>
  );
}

/** Whether a value needs lines of its own. */
function isBlock(value: Json): boolean {
  if (Array.isArray(value)) return value.some((each) => typeof each === "object" && each !== null) || JSON.stringify(value).length > MOST_INLINE;
  return isObject(value) && Object.keys(value).length > 0;
}

/** The columns of a list of flat objects that are alike; null where a table would not suit it. */
function columnsOf(values: Json[]): string[] | null {
  if (values.length < 2) return null;
  const names = new Set<string>();
  let cells = 0;
  for (const value of values) {
    if (!isObject(value) || Object.values(value).some((each) => isBlock(each))) return null;
    for (const name of Object.keys(value)) names.add(name);
    cells += Object.keys(value).length;
  }
  const isAlike = cells >= names.size * values.length * 0.7;
  return isAlike && names.size > 0 && names.size <= MOST_COLUMNS ? [...names] : null;
}
