/** What the list can be narrowed by, as chips with counts. What is chosen is in the address. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { count, words } from "../format";
import { changed, go, href, LIST_KEYS } from "../router";
import type { Facet, FacetName, RunPage } from "../types";

const GROUPS: readonly { facet: FacetName; key: string; title: string }[] = [
  { facet: "datasets", key: "dataset", title: "Dataset" },
  { facet: "statuses", key: "status", title: "Status" },
  { facet: "stop_reasons", key: "stop_reason", title: "Ended by" },
  { facet: "tools", key: "tool", title: "Tool" },
  { facet: "models", key: "model", title: "Model" },
  { facet: "marks", key: "mark", title: "Mark" },
  { facet: "labels", key: "label", title: "Label" },
  { facet: "authors", key: "author", title: "Person" },
  { facet: "filters", key: "filter", title: "Filter" },
];
const FEW = 8;

interface Properties {
  page: RunPage;
  path: readonly string[];
  query: URLSearchParams;
}

export function Facets({ page, path, query }: Properties): VNode {
  const turn = (key: string, value: string, isSingle = false) => {
    const chosen = query.getAll(key);
    const next = chosen.includes(value) ? chosen.filter((each) => each !== value) : isSingle ? [value] : [...chosen, value];
    go(href(path, changed(query, { [key]: next })));
  };
  const chip = (key: string, value: string, text: string, number?: number, isSingle = false) => (
    <button type="button" class="chip" aria-pressed={query.getAll(key).includes(value)} onClick={() => turn(key, value, isSingle)}>
      <span>{text}</span>
      {number !== undefined && <small>{count(number)}</small>}
    </button>
  );
  const { facets } = page;
  const ofOutcome = (value: string) => facets.outcomes?.find((each) => each.value === value)?.count ?? 0;
  const hasPeople = (facets.authors?.length ?? 0) > 0;
  return (
    <div class="facets">
      <Group title="Outcome">
        {chip("success", "1", "solved", ofOutcome("1"), true)}
        {chip("success", "0", "not solved", ofOutcome("0"), true)}
        {ofOutcome("none") > 0 && chip("success", "none", "not scored", ofOutcome("none"), true)}
      </Group>
      {GROUPS.map(({ facet, key, title }) => {
        const found = facets[facet] ?? [];
        const isChosen = query.has(key);
        if (!found.length || (found.length === 1 && !isChosen && ["dataset", "status", "model"].includes(key))) return null;
        return <LongGroup key={key} title={title} facets={found} chosen={query.getAll(key)} chip={(each) => chip(key, each.value, (key === "stop_reason" || key === "mark" ? words(each.value) : each.value), each.count)} />;
      })}
      {(facets.scores?.length ?? 0) > 0 && (
        <LongGroup title="Below full score" facets={facets.scores ?? []} chosen={[]} chip={(each) => chip("score", `${each.value}:lt:1`, each.value)} />
      )}
      {hasPeople && (
        <Group title="Made by">
          {chip("by", "run", "the run", undefined, true)}
          {chip("by", "person", "people", undefined, true)}
        </Group>
      )}
    </div>
  );
}

function Group({ title, children }: { title: string; children: VNode | (VNode | false | null)[] }): VNode {
  return (
    <div class="facet" role="group" aria-label={title}>
      <h3>{title}</h3>
      <div class="chips">{children}</div>
    </div>
  );
}

interface LongProperties {
  title: string;
  facets: Facet[];
  chosen: string[];
  chip: (facet: Facet) => VNode;
}

function LongGroup({ title, facets, chosen, chip }: LongProperties): VNode {
  const [isOpen, setOpen] = useState(false);
  const shown = facets.filter((each, place) => isOpen || place < FEW || chosen.includes(each.value));
  return (
    <Group title={title}>
      {[
        ...shown.map((each) => chip(each)),
        facets.length > FEW && (
          <button type="button" class="quiet small" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            {isOpen ? "fewer" : `${facets.length - FEW} more`}
          </button>
        ),
      ]}
    </Group>
  );
}

/** What narrows the list now, each with a button that takes it away. */
export function Chosen({ path, query }: { path: readonly string[]; query: URLSearchParams }): VNode | null {
  const chosen = LIST_KEYS.filter((key) => !["q", "sort", "desc"].includes(key)).flatMap((key) => query.getAll(key).map((value) => [key, value] as const));
  if (!chosen.length) return null;
  return (
    <div class="chosen" role="group" aria-label="Chosen filters">
      {chosen.map(([key, value]) => (
        <button type="button" class="chip is-chosen" aria-label={`Remove the filter ${describe(key, value)}`} onClick={() => go(href(path, changed(query, { [key]: query.getAll(key).filter((each) => each !== value) })))}>
          <span>{describe(key, value)}</span>
          <span aria-hidden="true">✕</span>
        </button>
      ))}
      <button type="button" class="quiet small" onClick={() => go(href(path, changed(query, Object.fromEntries(chosen.map(([key]) => [key, null])))))}>
        clear
      </button>
    </div>
  );
}

function describe(key: string, value: string): string {
  if (key === "success") return { "1": "solved", "0": "not solved" }[value] ?? "not scored";
  if (key === "cause") return `cause: ${value.slice(0, 60)}`;
  if (key === "score") return value.replace(/^(.*):lt:1$/, "$1 below 1").replace(/:(lt|le|gt|ge|eq):/, (_, sign: string) => ` ${{ lt: "<", le: "≤", gt: ">", ge: "≥", eq: "=" }[sign] ?? sign} `);
  if (key === "tool_error") return `error of the tool: ${value}`;
  if (key === "by") return value === "person" ? "made by people" : "made by the run";
  return `${words(key)}: ${key === "stop_reason" ? words(value) : value}`;
}
