/** A plot over the run's time (uPlot), drawn again when the theme or the width changes. */

import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { useWidth } from "../answers";
import { duration, number } from "../format";
import { cssColor, useTheme } from "../theme";

export interface Line {
  label: string;
  /** The name of a colour of the style sheet. */
  color: string;
  values: (number | null)[];
}

interface Properties {
  title: string;
  t: number[];
  lines: Line[];
  format?: (value: number | null) => string;
  /** The least range of the y axis: [0, 1] for shares. */
  range?: [number, number];
}

const HEIGHT = 150;

export function Chart({ title, t, lines, format = (value) => number(value), range }: Properties): VNode {
  const { isDark } = useTheme();
  const [attach, width] = useWidth<HTMLDivElement>();
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const target = place.current;
    if (!target || width === 0) return;
    const grid = { stroke: cssColor("--line"), width: 1 };
    const font = `11px ${cssColor("--sans")}`;
    const axis = { stroke: cssColor("--ink-2"), font, grid, ticks: { show: false } };
    const plot = new uPlot(
      {
        width,
        height: HEIGHT,
        // The last time is centred below the end of the line.
        padding: [8, 32, 0, 0],
        legend: { live: true },
        cursor: { points: { size: 5 } },
        scales: { x: { time: false }, y: { range: (_, low, high) => yRange(low, high, range) } },
        axes: [
          { ...axis, space: 70, size: 26, values: (_, ticks) => ticks.map((tick) => duration(tick)) },
          { ...axis, size: 52, space: 24, values: (_, ticks) => ticks.map((tick) => format(tick)) },
        ],
        // Without a cursor, the legend shows where the lines are now.
        hooks: { setCursor: [(self) => self.cursor.idx == null && self.setLegend({ idx: t.length - 1 }, false)] },
        series: [
          { value: (_: uPlot, value: number | null) => duration(value) },
          ...lines.map((line) => ({
            label: line.label,
            stroke: cssColor(line.color),
            width: 1.5,
            points: { show: t.length < 3 },
            value: (_: uPlot, value: number | null) => format(value),
          })),
        ],
      },
      [t.map((each) => each - (t[0] ?? 0)), ...lines.map((line) => line.values)] as uPlot.AlignedData,
      target,
    );
    plot.setLegend({ idx: t.length - 1 }, false);
    return () => plot.destroy();
  }, [t, lines, width, isDark]);
  const last = lines.map((line) => `${line.label} ${format(line.values.at(-1) ?? null)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={attach} class="chart-frame">
        <div ref={place} role="img" aria-label={`${title} over time. Now: ${last}`} />
      </div>
    </figure>
  );
}

function yRange(low: number, high: number, least: [number, number] | undefined): [number, number] {
  const bottom = Math.min(low ?? 0, least?.[0] ?? low ?? 0);
  const top = Math.max(high ?? 1, least?.[1] ?? high ?? 1);
  return top > bottom ? [bottom, top + (top - bottom) * 0.06] : [bottom, bottom + 1];
}

/** A small line beside a figure. */
export function Sparkline({ values }: { values: (number | null)[] }): VNode | null {
  const known = values.flatMap((value, place) => (value === null ? [] : [[place, value] as const]));
  if (known.length < 3) return null;
  const all = known.map(([, value]) => value);
  const least = Math.min(...all);
  const size = Math.max(...all) - least || 1;
  const points = known.map(([place, value]) => `${((100 * place) / (values.length - 1)).toFixed(1)},${(18 - (16 * (value - least)) / size).toFixed(1)}`);
  return (
    <svg class="sparkline" viewBox="0 0 100 20" preserveAspectRatio="none" aria-hidden="true">
      <polyline points={points.join(" ")} />
    </svg>
  );
}
