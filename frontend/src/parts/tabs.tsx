/** Views of one thing beside each other, each with an address. */

import type { ComponentChildren, VNode } from "preact";

export interface Tab {
  name: string;
  words: ComponentChildren;
  href: string;
}

export function Tabs({ label, tabs, current }: { label: string; tabs: Tab[]; current: string }): VNode {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <a href={tab.href} aria-current={tab.name === current ? "page" : undefined}>
          {tab.words}
        </a>
      ))}
    </nav>
  );
}
