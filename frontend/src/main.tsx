/** The page: its frame, and which view an address shows. */

import "uplot/dist/uPlot.min.css";
import "./style/base.css";
import "./style/runs.css";
import "./style/trajectory.css";
import "./style/tree.css";
import { render, type VNode } from "preact";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useAnswer } from "./answers";
import { author, setLoginName } from "./api";
import { useKeys } from "./keys";
import { Empty, Loading, Problem } from "./parts/notice";
import { report, REPORT_RUN } from "./report";
import { href, type Route, runPath, trajectoryPath, useRoute } from "./router";
import { SessionContext, type Session } from "./session";
import { nextTheme, useTheme } from "./theme";
import type { Me } from "./types";
import { CompareView } from "./views/compare";
import { AuthorDialog, HelpDialog } from "./views/help";
import { NewPlayView } from "./views/new_play";
import { PlayView } from "./views/play";
import { QueueView } from "./views/queue";
import { RunView } from "./views/run";
import { RunsView } from "./views/runs";
import { TrajectoryView } from "./views/trajectory/view";
import { TreeView } from "./views/tree/view";

const SAID_SECONDS = 5;

function Page(): VNode {
  const route = useRoute();
  const me = useAnswer<Me>(["me"]);
  const [said, setSaid] = useState<{ text: string; isError: boolean } | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>();
  const say = useCallback((text: string, isError = false) => {
    setSaid({ text, isError });
    clearTimeout(timer.current);
    // Errors stay until they are closed: they may be long, and tell what to do.
    if (!isError) timer.current = setTimeout(() => setSaid(null), SAID_SECONDS * 1000);
  }, []);
  const frame = useRef<HTMLDivElement>(null);
  // Put on top again, above a dialog that was opened since.
  useEffect(() => {
    frame.current?.hidePopover();
    frame.current?.showPopover();
  }, [said]);
  useEffect(() => setLoginName(me.data?.author ?? ""), [me.data]);
  const session = useMemo((): Session | null => me.data && { me: me.data, canWrite: !me.data.read_only && !report, say }, [me.data, say]);
  return (
    <>
      <a class="skip" href="#content" onClick={skip}>
        Skip to the content
      </a>
      <TopBar route={route} session={session} />
      <div id="content" class="content" tabIndex={-1}>
        {me.error && <Problem error={me.error} retry={me.reload} />}
        {!me.error && !session && <Loading what="the page" />}
        {session && (
          <SessionContext.Provider value={session}>
            <View route={route} />
          </SessionContext.Provider>
        )}
      </div>
      <div class="said-frame" ref={frame} popover="manual" role="status" aria-live="polite">
        {said && (
          <div class={said.isError ? "said is-error" : "said"}>
            <span>{said.text}</span>
            <button type="button" class="quiet" aria-label="Close" onClick={() => setSaid(null)}>
              ✕
            </button>
          </div>
        )}
      </div>
    </>
  );
}

/** The address belongs to the router, so the link only moves the focus. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("content")?.focus();
}

function View({ route }: { route: Route }): VNode {
  const { path, query } = route;
  const place = `${path.join("/")}?${query.get("panel") ?? query.get("tab") ?? ""}`;
  // A new view begins at its top; one with a chosen step scrolls to it by itself.
  useLayoutEffect(() => {
    if (!query.has("at")) scrollTo(0, 0);
  }, [place]);
  const [first, run, part, one, two] = path;
  if (report && first === undefined) return <ReportStart query={query} />;
  if (first === undefined) return <RunsView />;
  if (first === "compare") return <CompareView query={query} />;
  if (first === "run" && run !== undefined) {
    if (part === undefined) return <RunView key={run} run={run} query={query} />;
    if (part === "t" && one !== undefined && two !== undefined) return <TrajectoryView run={run} dataset={one} id={two} query={query} />;
    if (part === "tree" && one !== undefined && two !== undefined) return <TreeView key={`${run}/${one}/${two}`} run={run} dataset={one} task={two} query={query} />;
    if (part === "queue") return <QueueView run={run} query={query} />;
    if (part === "play" && one === undefined) return <NewPlayView run={run} query={query} />;
    if (part === "play" && one !== undefined) return <PlayView run={run} number={Number(one)} />;
  }
  return (
    <Empty>
      There is nothing at this address. <a href="#/">To the runs</a>
    </Empty>
  );
}

/** A report of one trajectory opens with it. */
function ReportStart({ query }: { query: URLSearchParams }): VNode {
  const only = report?.trajectories.length === 1 ? report.trajectories[0] : undefined;
  return only ? <TrajectoryView run={REPORT_RUN} dataset={only.dataset} id={only.id} query={query} /> : <RunView run={REPORT_RUN} query={query} />;
}

const THEME_WORDS = { system: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" } as const;
const THEME_SIGNS = { system: "◐", light: "○", dark: "●" } as const;

function TopBar({ route, session }: { route: Route; session: Session | null }): VNode {
  const { theme } = useTheme();
  const [isHelp, setHelp] = useState(false);
  const [isAsked, setAsked] = useState(false);
  useKeys("Everywhere", [
    { key: "?", words: "This help", act: () => setHelp(true) },
    { key: "d", words: "Light, dark or as the system", act: nextTheme },
    { key: "u", words: "Up: to the list", act: () => (location.hash = crumbsOf(route).at(-2)?.href ?? "#/") },
  ]);
  const crumbs = crumbsOf(route);
  return (
    <header class="top">
      <a class="brand" href="#/" aria-label="Rollout: all runs">
        <svg viewBox="0 0 16 16" aria-hidden="true">
          <path d="M2 8h4M6 8q2.5 0 3.5-3l3-1.5M6 8q2.5 0 3.5 3l3 1.5M6 8h7" />
        </svg>
        Rollout
      </a>
      <nav class="crumbs" aria-label="Where you are">
        {crumbs.map((crumb, place) => (
          <>
            <span aria-hidden="true">/</span>
            <a href={crumb.href} aria-current={place === crumbs.length - 1 ? "page" : undefined}>
              {crumb.words}
            </a>
          </>
        ))}
      </nav>
      <div class="top-tools">
        {session?.canWrite && (
          <button type="button" class="quiet" onClick={() => setAsked(true)} title="Who marks and corrects">
            {author() || session.me.author || "Your name"}
          </button>
        )}
        {session && !session.canWrite && !report && <span class="hint">read only</span>}
        <button type="button" class="quiet" aria-label={THEME_WORDS[theme]} title={THEME_WORDS[theme]} onClick={nextTheme}>
          {THEME_SIGNS[theme]}
        </button>
        <button type="button" class="quiet" aria-label="Keyboard help" onClick={() => setHelp(true)}>
          ?
        </button>
      </div>
      {isHelp && <HelpDialog version={session?.me.version ?? ""} onClose={() => setHelp(false)} />}
      {isAsked && <AuthorDialog onClose={() => setAsked(false)} />}
    </header>
  );
}

interface Crumb {
  words: string;
  href: string;
}

function crumbsOf({ path, query }: Route): Crumb[] {
  const [first, run, part, one, two] = path;
  if (report) return [{ words: report.run.title || report.run.name, href: "#/" }, ...(two !== undefined ? [{ words: two, href: href(path) }] : [])];
  if (first === "compare") return [{ words: "compare", href: href(path, query) }];
  if (first !== "run" || run === undefined) return [];
  const crumbs: Crumb[] = [{ words: run, href: href(runPath(run)) }];
  if (part === "t" && one !== undefined && two !== undefined) {
    const list = new URLSearchParams(query);
    for (const name of ["at", "panel", "sent"]) list.delete(name);
    crumbs[0] = { words: run, href: href(runPath(run), list) };
    crumbs.push({ words: two, href: href(trajectoryPath(run, { dataset: one, id: two }), list) });
  } else if (part === "tree" && two !== undefined) crumbs.push({ words: `tree of ${two}`, href: href(path) });
  else if (part !== undefined) crumbs.push({ words: { queue: "review", play: "play" }[part] ?? part, href: href(path, query) });
  return crumbs;
}

const root = document.getElementById("page") ?? document.body;
render(<Page />, root);
