  // The page as an accessibility tree from the window's top on, a line for each node that tells something: landmarks,
  // headings, lists, tables, things to act on, and text. Nodes without a role of their own, and what nothing stands in,
  // are left out. Numbers are kept: an element has the same one in every observation of its document.

  const numbers = new WeakMap();
  let lastKept = 0;  // the highest number that was given to an element of this document

  const TREE_ROLES = {NAV: 'navigation', MAIN: 'main', HEADER: 'banner', FOOTER: 'contentinfo', ASIDE: 'complementary',
    UL: 'list', OL: 'list', DL: 'list', TABLE: 'table', FORM: 'form', ARTICLE: 'article', DIALOG: 'dialog', FIGURE: 'figure',
    FIELDSET: 'group', SECTION: 'region', DETAILS: 'group', LI: 'listitem', TR: 'row', H1: 'heading', H2: 'heading',
    H3: 'heading', H4: 'heading', H5: 'heading', H6: 'heading', IMG: 'image', IFRAME: 'frame'};
  const TOLD_ROLES = /^(heading|row|listitem|alert|status|tooltip)$/;  // their text is their name
  const UNTOLD_ROLES = /^(none|presentation|generic|paragraph|label|clickable)$/;

  // The role of something that is not acted on; null where it has none that tells anything.
  function treeRole(element) {
    const given = element.getAttribute('role')?.trim().split(/\s+/)[0];
    const role = given || TREE_ROLES[element.tagName];
    if (!role || UNTOLD_ROLES.test(role)) return null;
    if (/^(region|form|group)$/.test(role) && !ownName(element)) return null;  // by the rules of ARIA, only with a name
    if (/^(banner|contentinfo)$/.test(role) && !given && element.closest('article,section,main,aside,nav')) return null;
    return role;
  }

  const ownName = (element) => clean(element.getAttribute('aria-label') || element.getAttribute('title')
    || element.getAttribute('alt') || (element.hasAttribute('aria-labelledby') ? nameOf(element) : '')
    || (element.tagName === 'FIELDSET' ? element.querySelector('legend')?.textContent : '')
    || (element.tagName === 'TABLE' ? element.caption?.textContent : ''), MAX_LINE);
  const MAX_LINE = 300;

  function cellsOf(row) {
    return [...row.children].map((cell) => clean(cell.innerText ?? cell.textContent, 80)).join(' | ').replace(/^[|\s]+|[|\s]+$/g, '');
  }

  function* readTree() {
    const root = document.body || document.documentElement;
    const stack = root ? [{node: root}] : [];
    const open = [];  // the nodes around, some of them not told yet
    let run = '', visited = 0;
    function* tell(line, entry = {}) {
      for (const [depth, around] of open.entries())
        if (!around.isTold) { around.isTold = true; yield {text: ' '.repeat(depth) + around.line + '\n'}; }
      const indent = ' '.repeat(open.length);
      yield entry.element ? {...entry, indent, told: line} : {text: indent + line + '\n'};
    }
    function* flush() {
      const text = clean(run, 2000);
      run = '';
      if (text) yield* tell('StaticText ' + JSON.stringify(text));
    }
    while (stack.length) {
      const {node, isTold, end} = stack.pop();
      if (end) { yield* flush(); if (end === 'node') open.pop(); continue; }
      if (node.nodeType === 3) { if (!isTold) run += node.data.replace(/\s+/g, ' '); continue; }
      if (node.nodeType !== 1 || node === overlay || SKIPPED.has(node.tagName)) continue;
      if (node.getAttribute('aria-hidden') === 'true') continue;
      if (++visited > MAX_VISITED) { visited = 0; yield {isLimit: true}; }
      const style = getComputedStyle(node);
      if (style.display === 'none' || (style.display !== 'contents' && !node.checkVisibility())) continue;
      const box = boxOf(node);
      const isAbove = box.bottom <= 0 && box.bottom > box.top && style.position !== 'fixed';
      if (isAbove && style.overflow !== 'visible') continue;
      if (!isAbove && isClosed(node)) foreign++;
      let isInnerTold = isTold || isAbove;
      const isBlock = BLOCKS.test(style.display) || node.tagName === 'BR' || /^T[DH]$/.test(node.tagName);
      if (isBlock) yield* flush();
      if (isBlock) stack.push({end: 'block'});
      if (!isAbove && style.visibility === 'visible' && node !== document.body && isInteractive(node)) {
        yield* flush();
        const told = line(node);
        yield* tell(told, {element: node, box});
        if (/^(INPUT|SELECT|TEXTAREA)$/.test(node.tagName)) continue;
        isInnerTold ||= isToldByName(node);
      } else if (!isAbove) {
        const role = treeRole(node);
        if (role === 'image') {
          if (ownName(node) && !isTold) { yield* flush(); yield* tell(`image ${JSON.stringify(ownName(node))}`); }
        } else if (role) {
          yield* flush();
          // One with something to act on inside is told by its parts. A row is read as a whole all the same.
          const hasName = TOLD_ROLES.test(role) && (role === 'row' || !node.querySelector(CANDIDATES + ',li,p,table'));
          const name = hasName ? (role === 'row' ? cellsOf(node) : clean(node.innerText ?? node.textContent, MAX_LINE)) : ownName(node);
          const level = role === 'heading' ? ` (level ${node.getAttribute('aria-level') || node.tagName[1]})` : '';
          const told = role + (name ? ' ' + JSON.stringify(name) : '') + level;
          const isWhole = hasName && !name.endsWith('…');
          if (hasName && name && !isTold) yield* tell(told);
          open.push({line: told, isTold: hasName || isTold});
          stack.push({end: 'node'});
          isInnerTold ||= isWhole;
        }
      }
      isInnerTold ||= node.tagName === 'LABEL' && Boolean(node.control);
      const children = [...childrenOf(node)];
      for (let index = children.length - 1; index >= 0; index--) stack.push({node: children[index], isTold: isInnerTold});
    }
    yield* flush();
  }
