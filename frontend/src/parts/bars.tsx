/** Distributions and counts as bars. */

import type { VNode } from "preact";
import { count, percent, plural, short } from "../format";
import type { Distribution } from "../types";

export function Histogram({ title, of, format = short }: { title: string; of: Distribution; format?: (value: number) => string }): VNode {
  const most = Math.max(...of.bins.map((bin) => bin.count), 1);
  const width = 100 / of.bins.length;
  return (
    <figure class="histogram">
      <figcaption>
        {title} <small>{`mean ${format(of.mean)}`}</small>
      </figcaption>
      <svg viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label={`${title}: half below ${format(of.p50)}, 90% below ${format(of.p90)}, at most ${format(of.most)}`}>
        {of.bins.map((bin, place) => {
          const height = bin.count ? Math.max(0.8, (39 * bin.count) / most) : 0;
          return (
            <rect x={place * width + 0.4} width={Math.max(0.4, width - 0.8)} y={40 - height} height={height}>
              <title>{`${binWords(bin.low, bin.high, format)}: ${count(bin.count)}`}</title>
            </rect>
          );
        })}
      </svg>
      <div class="histogram-scale">
        <span>{format(of.least)}</span>
        <span>{`p50 ${format(of.p50)} · p90 ${format(of.p90)} · p99 ${format(of.p99)}`}</span>
        <span>{format(of.most)}</span>
      </div>
    </figure>
  );
}

function binWords(low: number, high: number, format: (value: number) => string): string {
  return low === high ? format(low) : `${format(low)} to ${format(high)}`;
}

export interface Bar {
  name: string;
  /** What stands for the name where that is no name of the user's. */
  words?: string;
  count: number;
  href?: string;
  /** How much of it is bad, such as calls that were errors. */
  errors?: number;
}

export function Bars({ title, bars, of }: { title: string; bars: Bar[]; of?: number }): VNode | null {
  if (!bars.length) return null;
  const most = Math.max(...bars.map((bar) => bar.count), 1);
  return (
    <section class="bars" aria-label={title}>
      <h3>{title}</h3>
      <ul>
        {bars.map((bar) => (
          <li>
            <span class="bar-name" title={bar.name}>
              {bar.href ? <a href={bar.href}>{bar.words ?? bar.name}</a> : (bar.words ?? bar.name)}
            </span>
            <svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
              <rect class="bar-all" width={(100 * bar.count) / most} height="8" />
              {!!bar.errors && <rect class="fill-failed" width={(100 * bar.errors) / most} height="8" />}
            </svg>
            <span class="number">
              {count(bar.count)}
              {of !== undefined && <small> {percent(bar.count, of)}</small>}
              {!!bar.errors && <small class="bad"> {plural(bar.errors, "error")}</small>}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}
