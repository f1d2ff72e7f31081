/** Tokens of each generation, coloured by what becomes of them in training, by logprob, or by the weights that sampled them. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { useAnswer } from "../../answers";
import { count, plural } from "../../format";
import { Empty, Loading, Problem } from "../../parts/notice";
import { labelOf } from "./step";
import type { TokenPage, TokenStep, TrajectoryPage } from "../../types";

type Coloring = "kind" | "logprob" | "weights";
const COLORINGS: Record<Coloring, string> = { kind: "By mask", logprob: "By logprob", weights: "By weight version" };
/** Limits of −logprob between the colours: from nearly certain to surprising. */
const SURPRISES = [0.05, 0.3, 0.8, 1.6, 3] as const;
const MOST_TOKENS = 4000;

interface Properties {
  run: string;
  page: TrajectoryPage;
  linkTo: (message: number) => string;
}

export function TokensPanel({ run, page, linkTo }: Properties): VNode {
  const answer = useAnswer<TokenPage>(["runs", run, "tokens"], new URLSearchParams({ dataset: page.dataset, id: page.id }));
  const [coloring, setColoring] = useState<Coloring>("kind");
  if (answer.error) return <Problem error={answer.error} retry={answer.reload} />;
  if (!answer.data) return <Loading what="tokens" />;
  const { steps, note } = answer.data;
  const versions = [...new Set(steps.map((step) => step.weight_version))];
  return (
    <div class="panel">
      {note && <p class="hint">{note}</p>}
      {!steps.length && <Empty>No tokens are on record.</Empty>}
      {!page.is_exact && steps.length > 0 && <p class="hint">Not token-exact{page.drift_causes.length > 0 && `: ${page.drift_causes.join(", ")}`}.</p>}
      <div class="chips" role="group" aria-label="Colour of tokens">
        {(Object.keys(COLORINGS) as Coloring[]).map((each) => (
          <button type="button" class="chip" aria-pressed={each === coloring} onClick={() => setColoring(each)}>
            {COLORINGS[each]}
          </button>
        ))}
      </div>
      <Legend coloring={coloring} versions={versions} />
      {steps.map((step) => (
        <section class="token-step">
          <h3>
            <a href={linkTo(step.message)}>{nameOf(page, step.message)}</a>{" "}
            <small>
              {[step.shared > 0 && `${plural(step.shared, "token")} as before`, step.drift && `the prompt drifted: ${step.drift}`, !step.is_exact && "not exact", step.weight_version && `weights ${step.weight_version}`].filter(Boolean).join(" · ")}
            </small>
          </h3>
          <StepTokens step={step} coloring={coloring} version={versions.indexOf(step.weight_version)} />
        </section>
      ))}
    </div>
  );
}

function nameOf(page: TrajectoryPage, index: number): string {
  const message = page.messages.find((each) => each.index === index);
  return message ? labelOf(message) : `Message ${index}`;
}

function Legend({ coloring, versions }: { coloring: Coloring; versions: (string | null)[] }): VNode {
  if (coloring === "logprob") {
    return (
      <p class="token-legend">
        {[...SURPRISES, Infinity].map((limit, place) => (
          <span class={`token is-logprob-${place}`}>{limit === Infinity ? `p < ${probability(SURPRISES.at(-1) ?? 0)}` : `p ≥ ${probability(limit)}`}</span>
        ))}
      </p>
    );
  }
  if (coloring === "weights") {
    return (
      <p class="token-legend">
        {versions.map((version, place) => (
          <span class={`token is-version-${place % 6}`}>{version ?? "unknown"}</span>
        ))}
      </p>
    );
  }
  return (
    <p class="token-legend">
      <span class="token is-prompt">prompt, not learnt</span> <span class="token is-sampled">sampled, learnt</span> <span class="token is-masked">sampled, masked</span>
    </p>
  );
}

function probability(surprise: number): string {
  return Math.exp(-surprise).toFixed(2);
}

function StepTokens({ step, coloring, version }: { step: TokenStep; coloring: Coloring; version: number }): VNode {
  // A prompt may have many thousand tokens and they all look alike: one piece of text.
  const prompt = step.tokens.filter((token) => token.kind === "prompt");
  const sampled = step.tokens.filter((token) => token.kind !== "prompt");
  const text = prompt.map((token) => token.text ?? `${token.id} `).join("");
  return (
    <div class="tokens">
      {prompt.length > 0 && (
        <details>
          <summary class="hint">{plural(prompt.length, "new token")} of the prompt</summary>
          <span class="token is-prompt">{text}</span>
        </details>
      )}
      {sampled.slice(0, MOST_TOKENS).map((token) => (
        <span class={`token ${colorOf(token, coloring, version)}`} title={`${token.id ?? ""}${token.logprob === null ? "" : `  logprob ${token.logprob.toFixed(3)}, p ${Math.exp(token.logprob).toFixed(3)}`}`}>
          {token.text ?? `${token.id} `}
        </span>
      ))}
      {sampled.length > MOST_TOKENS && <span class="hint">… {count(sampled.length - MOST_TOKENS)} more</span>}
    </div>
  );
}

function colorOf(token: TokenStep["tokens"][number], coloring: Coloring, version: number): string {
  if (coloring === "weights") return `is-version-${version % 6}`;
  if (coloring === "kind" || token.logprob === null) return `is-${token.kind}`;
  const surprise = -token.logprob;
  const place = SURPRISES.findIndex((limit) => surprise <= limit);
  return `is-logprob-${place < 0 ? SURPRISES.length : place}`;
}
