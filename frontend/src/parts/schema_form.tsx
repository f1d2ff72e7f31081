/** A form made from a JSON schema, for the arguments of a tool. What a form does not suit is typed as JSON. */

import type { VNode } from "preact";
import { useId, useState } from "preact/hooks";
import type { Json, JsonObject, ToolSchema } from "../types";
import { isObject } from "./json";

/** A tool in either of the two usual forms: bare, or within {"type": "function"}. */
export function readTool(tool: Json): ToolSchema | null {
  const inner = isObject(tool) && isObject(tool.function ?? null) ? tool.function : tool;
  if (!isObject(inner) || typeof inner.name !== "string") return null;
  const parameters = inner.parameters ?? inner.input_schema ?? inner.inputSchema;
  return {
    name: inner.name,
    description: typeof inner.description === "string" ? inner.description : null,
    parameters: isObject(parameters) ? parameters : {},
  };
}

export function propertiesOf(schema: JsonObject): [string, JsonObject][] {
  return Object.entries(isObject(schema.properties) ? schema.properties : {}).map(([name, each]) => [name, isObject(each) ? each : {}]);
}

export const isRequired = (schema: JsonObject, name: string): boolean => Array.isArray(schema.required) && schema.required.includes(name);

/** The type in words: `integer`, `array of string`, `one of 3`. */
export function typeWords(schema: JsonObject): string {
  if (Array.isArray(schema.enum)) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  const kind = Array.isArray(schema.type) ? schema.type.join(" or ") : typeof schema.type === "string" ? schema.type : "any";
  return kind === "array" && isObject(schema.items) ? `array of ${typeWords(schema.items)}` : kind;
}

interface Properties {
  schema: JsonObject;
  value: JsonObject;
  onChange: (value: JsonObject) => void;
}

const UNKNOWN: JsonObject = { description: "The tool has no argument of this name. Empty the field to leave it out." };

export function SchemaForm({ schema, value, onChange }: Properties): VNode {
  const properties = propertiesOf(schema);
  const set = (name: string, next: Json | undefined) => {
    const { [name]: _, ...others } = value;
    onChange(next === undefined ? others : { ...others, [name]: next });
  };
  if (!properties.length && !Object.keys(value).length) return <p class="hint">This tool has no arguments.</p>;
  const known = new Set(properties.map(([name]) => name));
  const extra = Object.keys(value).filter((name) => !known.has(name));
  return (
    <div class="schema-form">
      {[...properties, ...extra.map((name): [string, JsonObject] => [name, UNKNOWN])].map(([name, each]) => (
        <Field key={name} name={name} schema={each} isRequired={isRequired(schema, name)} value={value[name]} onChange={(next) => set(name, next)} />
      ))}
    </div>
  );
}

interface FieldProperties {
  name: string;
  schema: JsonObject;
  isRequired: boolean;
  value: Json | undefined;
  onChange: (value: Json | undefined) => void;
}

function Field({ name, schema, isRequired, value, onChange }: FieldProperties): VNode {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>
        <span class="mono">{name}</span> <small>{typeWords(schema)}</small>
        {isRequired && <small class="required"> required</small>}
      </label>
      <Control id={id} schema={schema} isRequired={isRequired} value={value} onChange={onChange} />
      {typeof schema.description === "string" && <small class="hint">{schema.description}</small>}
    </div>
  );
}

function Control({ id, schema, isRequired, value, onChange }: Omit<FieldProperties, "name"> & { id: string }): VNode {
  if (Array.isArray(schema.enum)) {
    const choices = schema.enum;
    return (
      <select id={id} required={isRequired} value={value === undefined ? "" : JSON.stringify(value)} onChange={(event) => onChange(event.currentTarget.value === "" ? undefined : (JSON.parse(event.currentTarget.value) as Json))}>
        <option value="">–</option>
        {choices.map((choice) => (
          <option value={JSON.stringify(choice)}>{String(choice)}</option>
        ))}
      </select>
    );
  }
  switch (schema.type) {
    case "boolean":
      return (
        <select id={id} required={isRequired} value={value === undefined ? "" : String(value)} onChange={(event) => onChange(event.currentTarget.value === "" ? undefined : event.currentTarget.value === "true")}>
          <option value="">–</option>
          <option value="true">true</option>
          <option value="false">false</option>
        </select>
      );
    case "integer":
    case "number": {
      const limit = (bound: Json | undefined) => (typeof bound === "number" ? bound : undefined);
      return (
        <input id={id} type="number" required={isRequired} step={schema.type === "integer" ? 1 : "any"} min={limit(schema.minimum)} max={limit(schema.maximum)} value={typeof value === "number" ? value : ""} onInput={(event) => onChange(event.currentTarget.value === "" ? undefined : Number(event.currentTarget.value))} />
      );
    }
    case "string":
      return <input id={id} required={isRequired} value={typeof value === "string" ? value : ""} onInput={(event) => onChange(event.currentTarget.value === "" && !isRequired ? undefined : event.currentTarget.value)} />;
    default:
      return <JsonField id={id} isRequired={isRequired} value={value} onChange={onChange} />;
  }
}

interface JsonFieldProperties {
  id?: string;
  isRequired: boolean;
  value: Json | undefined;
  rows?: number;
  /** Whether only an object will do, as for all arguments of a call. */
  isObjectOnly?: boolean;
  onChange: (value: Json | undefined) => void;
}

/** A value as JSON text. What it cannot be is kept as typed, and the form cannot be sent. */
export function JsonField({ id, isRequired, value, rows = 3, isObjectOnly = false, onChange }: JsonFieldProperties): VNode {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value, null, 2));
  const [problem, setProblem] = useState("");
  const read = (field: HTMLTextAreaElement) => {
    setText(field.value);
    let words = "";
    try {
      const read = field.value.trim() === "" ? undefined : (JSON.parse(field.value) as Json);
      if (isObjectOnly && read !== undefined && !isObject(read)) words = "Expected a JSON object: {…}";
      else onChange(read);
    } catch (error) {
      words = `No JSON: ${(error as Error).message}`;
    }
    field.setCustomValidity(words);
    setProblem(words);
  };
  return (
    <>
      <textarea id={id} class="mono" rows={rows} required={isRequired} spellcheck={false} value={text} aria-invalid={!!problem} onInput={(event) => read(event.currentTarget)} />
      {problem && <small class="bad">{problem}</small>}
    </>
  );
}
