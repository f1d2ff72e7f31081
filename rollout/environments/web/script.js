// What is asked of a document. It runs in a world of its own beside the page's scripts: it sees the page's elements but
// none of its variables, and the page sees nothing of it. Numbers of elements mean the list of the last observation.
(() => {
  if (globalThis.rollout) return;

  const CANDIDATES = 'a[href],area[href],button,input,select,textarea,summary,option,label,[contenteditable=""],'
    + '[contenteditable="true"],[onclick],[tabindex],[role]';
  const ROLES = new Set(['button', 'link', 'checkbox', 'radio', 'switch', 'tab', 'menuitem', 'menuitemcheckbox',
    'menuitemradio', 'option', 'combobox', 'textbox', 'searchbox', 'slider', 'spinbutton', 'listbox', 'treeitem',
    'gridcell']);
  const CONTROLS = /^(A|AREA|BUTTON|INPUT|SELECT|TEXTAREA|SUMMARY)$/;
  const SKIPPED = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'HEAD', 'META', 'LINK', 'TITLE']);
  const BLOCKS = /^(block|flex|grid|table|list-item|flow-root|table-row|table-caption)$/;
  const MAX_VISITED = 60000;
  const WATCHED = ['class', 'hidden', 'disabled', 'value', 'checked', 'open', 'src', 'href', 'aria-expanded',
    'aria-hidden', 'aria-checked', 'aria-selected'];

  let marks = [];
  let overlay = null;
  let changedAt = performance.now();
  let hasGivenUp = false;  // this document takes too long to load; no later step waits for it again
  let wake = () => {};

  const watcher = new MutationObserver((records) => {
    if (records.every((record) => record.target === overlay || [...record.addedNodes, ...record.removedNodes]
      .some((node) => node === overlay))) return;
    changedAt = performance.now();
  });
  watcher.observe(document, {subtree: true, childList: true, characterData: true, attributes: true,
    attributeFilter: WATCHED});
  document.addEventListener('readystatechange', () => wake());

  async function settle({quiet, settle, load}) {
    // In a frame whose sandbox forbids scripts no timer fires, and nothing changes by itself.
    if (matchMedia('(scripting: none)').matches) return;
    const start = performance.now();
    let loaded = null;
    for (;;) {
      const now = performance.now();
      const isLoading = document.readyState !== 'complete' && !hasGivenUp;
      if (isLoading && now - start >= load) { hasGivenUp = true; continue; }
      if (!isLoading && loaded === null) loaded = now;
      // Many pages build themselves when they are loaded: quiet counts from there at the earliest.
      const due = isLoading ? start + load : Math.min(loaded + settle, Math.max(changedAt, loaded) + quiet);
      if (now >= due) return;
      await new Promise((resolve) => { wake = resolve; setTimeout(resolve, due - now); });
    }
  }

  // ---- geometry -----------------------------------------------------------------------------------------------

  const view = () => ({width: innerWidth, height: innerHeight});

  // Where the frame that holds an element lies in the window, as far as frames of the same origin go.
  function offsetOf(doc) {
    let x = 0, y = 0;
    for (let win = doc.defaultView; win && win !== globalThis.window; win = win.parent) {
      const frame = win.frameElement;
      if (!frame) break;
      const box = frame.getBoundingClientRect();
      x += box.left + frame.clientLeft;
      y += box.top + frame.clientTop;
    }
    return {x, y};
  }

  function boxOf(element) {
    let box = element.getBoundingClientRect();
    if ((box.width < 2 || box.height < 2) && element.labels?.length) box = element.labels[0].getBoundingClientRect();
    const {x, y} = offsetOf(element.ownerDocument);
    return {left: box.left + x, top: box.top + y, right: box.right + x, bottom: box.bottom + y};
  }

  function clipped(box) {
    const {width, height} = view();
    const left = Math.max(0, box.left), top = Math.max(0, box.top);
    const right = Math.min(width, box.right), bottom = Math.min(height, box.bottom);
    return right - left >= 1 && bottom - top >= 1 ? {left, top, right, bottom} : null;
  }

  function topmostAt(x, y) {
    let root = document, found = null;
    for (;;) {
      const element = root.elementFromPoint(x, y);
      if (!element || element === found) return found;
      found = element;
      if (element.shadowRoot) { root = element.shadowRoot; continue; }
      const inner = innerDocument(element);
      if (!inner) return found;
      const box = element.getBoundingClientRect();
      x -= box.left + element.clientLeft;
      y -= box.top + element.clientTop;
      root = inner;
    }
  }

  const parentOf = (node) => node.assignedSlot || node.parentNode || node.host || null;

  function isWithin(node, ancestor) {
    for (let at = node; at; at = at instanceof Document || at.nodeType === 9 ? at.defaultView?.frameElement : parentOf(at))
      if (at === ancestor) return true;
    return false;
  }

  // A point of the element at which a click reaches it; and what lies over it where there is none.
  function pointOf(element) {
    const box = clipped(boxOf(element));
    if (!box) return null;
    const width = box.right - box.left, height = box.bottom - box.top;
    let over = null;
    for (const [fx, fy] of [[.5, .5], [.25, .5], [.75, .5], [.5, .25], [.5, .75], [.08, .15], [.92, .85]]) {
      const x = box.left + width * fx, y = box.top + height * fy;
      const hit = topmostAt(x, y);
      if (hit && (isWithin(hit, element) || [...(element.labels || [])].some((label) => isWithin(hit, label))))
        return {x, y};
      over ||= hit;
    }
    return {x: box.left + width / 2, y: box.top + height / 2, over: over ? describe(over) : 'nothing'};
  }

  // ---- what an element is -------------------------------------------------------------------------------------

  const clean = (text, limit = 120) => {
    const plain = (text || '').replace(/\s+/g, ' ').trim();
    return plain.length > limit ? plain.slice(0, limit) + '…' : plain;
  };

  // Roles and names by the rules of ARIA and accname, as far as things to act on need them. Chromium's own
  // (`computedName`) build the accessibility tree of the whole document for each question.
  const INPUT_ROLES = {checkbox: 'checkbox', radio: 'radio', submit: 'button', button: 'button', image: 'button',
    reset: 'button', file: 'button', range: 'slider', number: 'spinbutton', search: 'searchbox', text: 'textbox',
    email: 'textbox', tel: 'textbox', url: 'textbox', password: 'textbox'};
  const TAG_ROLES = {A: 'link', AREA: 'link', BUTTON: 'button', TEXTAREA: 'textbox', SUMMARY: 'button', DIALOG: 'dialog',
    IMG: 'image', NAV: 'navigation', OPTION: 'option', LABEL: 'label', IFRAME: 'frame', TABLE: 'table', FORM: 'form'};
  // Roles whose name is not what they contain.
  const NAMED_APART = /^(textbox|searchbox|combobox|listbox|slider|spinbutton|dialog|alertdialog|grid|table|form|frame)$/;

  function roleOf(element) {
    const given = element.getAttribute('role')?.trim().split(/\s+/)[0];
    if (given && given !== 'none' && given !== 'presentation') return given;
    if (element.tagName === 'INPUT') return element.list ? 'combobox' : INPUT_ROLES[element.type] || element.type;
    if (element.tagName === 'SELECT') return element.multiple || element.size > 1 ? 'listbox' : 'combobox';
    return TAG_ROLES[element.tagName] || (element.isContentEditable ? 'textbox' : 'clickable');
  }

  function nameOf(element) {
    const seen = new Set();
    const text = (node, isReferred) => {
      if (seen.has(node) || seen.size > 300) return '';
      seen.add(node);
      if (node.nodeType === 3) return node.data;
      if (node.nodeType !== 1 || SKIPPED.has(node.tagName)) return '';
      if (!isReferred && node !== element && (node.getAttribute('aria-hidden') === 'true'
          || !node.checkVisibility({visibilityProperty: true}) && getComputedStyle(node).display !== 'contents')) return '';
      return own(node) || content(node);
    };
    const content = (node) => {
      const parts = [];
      for (const child of childrenOf(node)) {
        const part = text(child, false);
        if (part) parts.push(child.nodeType === 1 && !/^inline/.test(getComputedStyle(child).display) ? ` ${part} ` : part);
      }
      return parts.join('');
    };
    const referred = (node, attribute) => (node.getAttribute(attribute) || '').split(/\s+/).filter(Boolean)
      .map((id) => node.getRootNode().getElementById?.(id)).filter(Boolean).map((other) => text(other, true)).join(' ');
    const own = (node) => {
      const label = (node.hasAttribute('aria-labelledby') && referred(node, 'aria-labelledby'))
        || node.getAttribute('aria-label');
      if (label?.trim()) return label;
      const tag = node.tagName;
      if (tag === 'IMG' || tag === 'AREA' || (tag === 'INPUT' && node.type === 'image')) return node.alt || node.title || '';
      if (tag === 'INPUT' && /^(submit|reset|button)$/.test(node.type)) return node.value || node.title || node.type;
      if (tag === 'INPUT' || tag === 'SELECT' || tag === 'TEXTAREA') {
        if (node !== element) return '';
        const labels = [...(node.labels || [])].map((other) => text(other, true)).join(' ');
        return labels.trim() || node.placeholder || node.title || '';
      }
      if (tag === 'IFRAME' || tag === 'DIALOG') return node.title || ' ';
      if (tag === 'svg' || tag === 'SVG') return node.querySelector(':scope > title')?.textContent || '';
      return '';
    };
    let name = own(element);
    if (!name.trim() && !NAMED_APART.test(roleOf(element))) { seen.clear(); name = content(element); }
    // The attribute: a form's own `title` is its field of that name, where it has one.
    return clean(name) || clean(element.getAttribute('title') || element.getAttribute('placeholder') || element.getAttribute('name') || '');
  }

  function stateOf(element) {
    const state = [];
    const tag = element.tagName;
    if (tag === 'SELECT') {
      state.push('= ' + JSON.stringify(clean([...element.selectedOptions].map((o) => o.label).join(', '))));
      const labels = [...element.options].map((option) => clean(option.label, 40));
      state.push('options: ' + labels.slice(0, 30).join(' | ') + (labels.length > 30 ? ` | … ${labels.length} in all` : ''));
    } else if (tag === 'INPUT' && /^(checkbox|radio)$/.test(element.type)) {
      state.push(element.checked ? 'checked' : 'not checked');
    } else if (tag === 'INPUT' && element.type === 'password') {
      if (element.value) state.push('= (hidden)');
    } else if (tag === 'TEXTAREA' || (tag === 'INPUT' && !/^(submit|button|reset|image|file)$/.test(element.type))) {
      if (element.value) state.push('= ' + JSON.stringify(clean(element.value)));
      if (/^(date|time|month|week|datetime-local|color)$/.test(element.type)) state.push(element.type);
    }
    if (element.hasAttribute('contenteditable') && element.textContent.trim())
      state.push('= ' + JSON.stringify(clean(element.innerText)));
    for (const what of ['checked', 'selected', 'expanded', 'pressed']) {
      const value = element.getAttribute('aria-' + what);
      if (value === 'true') state.push(what);
      if (value === 'false' && what === 'expanded') state.push('collapsed');
    }
    if (element.disabled || element.getAttribute('aria-disabled') === 'true') state.push('disabled');
    if (element.readOnly) state.push('read-only');
    return state.join(', ');
  }

  function describe(element) {
    const name = nameOf(element);
    return roleOf(element).replace('clickable', element.tagName.toLowerCase()) + (name ? ` ${JSON.stringify(clean(name, 60))}` : '');
  }

  function isInteractive(element) {
    if (element.matches(CANDIDATES)) {
      const tag = element.tagName;
      if (tag === 'INPUT') return element.type !== 'hidden';
      if (CONTROLS.test(tag)) return true;
      if (tag === 'OPTION') return false;
      if (tag === 'LABEL') {
        const box = element.control?.getBoundingClientRect();
        return Boolean(box && (box.width < 2 || box.height < 2));
      }
      if (element.isContentEditable || element.hasAttribute('onclick')) return true;
      const role = element.getAttribute('role');
      if (role && ROLES.has(role)) return true;
      if (element.tabIndex >= 0 && element.hasAttribute('tabindex')) return true;
    }
    const style = getComputedStyle(element);
    if (style.cursor !== 'pointer') return false;
    const parent = element.parentElement;
    // The outermost element with the pointer is the one: its parts have inherited it.
    return !parent || getComputedStyle(parent).cursor !== 'pointer';
  }

  function innerDocument(element) {
    if (element.tagName !== 'IFRAME' && element.tagName !== 'FRAME') return null;
    try { return element.contentDocument; } catch { return null; }
  }

  function* childrenOf(node) {
    const inner = node.nodeType === 1 ? innerDocument(node) : null;
    if (inner) { if (inner.documentElement) yield inner.documentElement; return; }
    if (node.shadowRoot) { yield* node.shadowRoot.childNodes; return; }
    if (node.tagName === 'SLOT' && node.assignedNodes().length) { yield* node.assignedNodes(); return; }
    yield* node.childNodes;
  }

  // ---- observations -------------------------------------------------------------------------------------------

  // A frame of another origin has to be asked by itself.
  let foreign = 0;
  const isClosed = (element) => /^I?FRAME$/.test(element.tagName) && !innerDocument(element);

  function collectVisible(limit) {
    const elements = [];
    const {width, height} = view();
    let visited = 0, isCut = false;
    const stack = [document.documentElement];
    while (stack.length) {
      const element = stack.pop();
      if (!element || element.nodeType !== 1 || element === overlay || SKIPPED.has(element.tagName)) continue;
      if (++visited > MAX_VISITED || elements.length >= limit) { isCut = true; break; }
      const box = boxOf(element);
      const isInside = box.right > 0 && box.bottom > 0 && box.left < width && box.top < height;
      if (isInside && isClosed(element)) foreign++;
      if (isInside && isInteractive(element)
          && element.checkVisibility({visibilityProperty: true}) && (box.right - box.left) * (box.bottom - box.top) < .9 * width * height) {
        const point = pointOf(element);
        if (point && !point.over) elements.push({element, box});
      }
      const children = [...childrenOf(element)];
      for (let index = children.length - 1; index >= 0; index--)
        if (children[index].nodeType === 1) stack.push(children[index]);
    }
    return {elements, isCut};
  }

  function collectText(maxElements, maxText, first) {
    const elements = [], parts = [];
    let size = 0, visited = 0, isCut = false;
    const say = (text) => { parts.push(text); size += text.length; };
    const full = () => size > maxText || visited > MAX_VISITED || elements.length >= maxElements;
    const walk = (node) => {
      if (full()) { isCut = true; return; }
      if (node.nodeType === 3) {
        const text = node.data.replace(/\s+/g, ' ');
        if (text.trim()) say(text);
        return;
      }
      if (node.nodeType !== 1 || node === overlay || SKIPPED.has(node.tagName)) return;
      visited++;
      const style = getComputedStyle(node);
      if (style.display === 'none' || (style.display !== 'contents' && !node.checkVisibility())) return;
      const box = boxOf(node);
      const isAbove = box.bottom <= 0 && box.bottom > box.top && style.position !== 'fixed';
      if (isAbove && style.overflow !== 'visible') return;
      const isBlock = BLOCKS.test(style.display) || node.tagName === 'BR';
      if (isBlock) say('\n');
      // A body that listens to clicks is the page itself.
      if (!isAbove && style.visibility === 'visible' && node !== document.body && isInteractive(node)) {
        elements.push({element: node, box});
        const told = line(node);
        say(` [${first + elements.length}] ${told} `);
        if (isBlock) say('\n');
        // Whatever is no control by itself may hold others, and more to read than its name says.
        if (CONTROLS.test(node.tagName) || !(node.querySelector(CANDIDATES) || told.includes('…"'))) return;
      }
      if (/^H[1-6]$/.test(node.tagName)) say('#'.repeat(Number(node.tagName[1])) + ' ');
      if (node.tagName === 'LI') say('- ');
      if (node.tagName === 'IMG' && node.alt) say(`(image: ${clean(node.alt)})`);
      if (!isAbove && isClosed(node)) foreign++;
      if (isAbove && !node.children.length) return;
      for (const child of childrenOf(node)) {
        if (isAbove && child.nodeType === 3) continue;
        walk(child);
      }
      if (/^T[DH]$/.test(node.tagName)) say(' | ');
      if (isBlock) say('\n');
    };
    if (document.body || document.documentElement) walk(document.body || document.documentElement);
    const text = parts.join('').replace(/[ \t]+/g, ' ').replace(/ ?\n ?/g, '\n').replace(/\n{2,}/g, '\n').trim();
    return {elements, isCut: isCut || text.length > maxText, text: text.slice(0, maxText)};
  }

  function line(element) {
    const name = nameOf(element), state = stateOf(element);
    return roleOf(element) + (name ? ' ' + JSON.stringify(name) : '') + (state ? ` (${state})` : '');
  }

  async function observe(options) {
    await settle(options);
    const root = document.scrollingElement || document.documentElement;
    const seen = {
      url: location.href, title: document.title, isLoaded: document.readyState === 'complete', isClosing: window.closed,
      above: Math.round(root?.scrollTop || 0),
      below: Math.max(0, Math.round((root?.scrollHeight || 0) - (root?.scrollTop || 0) - innerHeight)),
      elements: [], text: '', isCut: false, foreign: 0,
    };
    const {first = 0, x = 0, y = 0} = options;
    foreign = 0;
    if (options.mode === 'none') return seen;
    marks = [];
    if (options.mode === 'coordinates') return seen;
    const found = options.mode === 'text' ? collectText(options.maxElements, options.maxText, first)
      : collectVisible(options.maxElements);
    marks = found.elements.map(({element}) => element);
    seen.isCut = found.isCut;
    seen.foreign = foreign;
    seen.text = found.text || '';
    seen.elements = found.elements.map(({element, box}) => ({
      role: roleOf(element), name: nameOf(element), state: stateOf(element),
      box: [box.left + x, box.top + y, box.right - box.left, box.bottom - box.top].map(Math.round),
    }));
    if (options.mode === 'set_of_marks') draw(found.elements, first);
    return seen;
  }

  const COLOURS = ['#d11149', '#1a5fb4', '#1b7f3b', '#8f3fb0', '#b35900', '#0b7a75', '#5c4b00', '#333333'];

  // Of HTML also in documents that are none, such as pictures and feeds.
  const makeBox = () => document.createElementNS('http://www.w3.org/1999/xhtml', 'div');

  // The numbers lie in the top layer, above dialogs, until the screenshot is taken.
  function draw(elements, first) {
    clear();
    overlay = makeBox();
    overlay.setAttribute('popover', 'manual');
    overlay.style.cssText = 'all:initial;position:fixed;inset:0;width:100vw;height:100vh;margin:0;padding:0;border:0;'
      + 'background:transparent;pointer-events:none;overflow:hidden;z-index:2147483647;display:block';
    const root = overlay.attachShadow({mode: 'closed'});
    const {width} = view();
    elements.forEach(({box}, index) => {
      const part = clipped(box);
      if (!part) return;
      const colour = COLOURS[index % COLOURS.length];
      const frame = makeBox();
      frame.style.cssText = `position:fixed;box-sizing:border-box;left:${part.left}px;top:${part.top}px;`
        + `width:${part.right - part.left}px;height:${part.bottom - part.top}px;border:2px solid ${colour}`;
      const label = makeBox();
      label.textContent = String(first + index + 1);
      const size = 8 * label.textContent.length + 6;
      label.style.cssText = `position:fixed;left:${Math.max(0, Math.min(width - size, part.right - size))}px;`
        + `top:${part.top >= 15 ? part.top - 15 : part.top}px;width:${size}px;height:15px;background:${colour};`
        + 'color:#fff;font:bold 12px/15px monospace;text-align:center';
      root.append(frame, label);
    });
    document.documentElement?.append(overlay);
    try { overlay.showPopover(); } catch { /* an old Chromium, or an empty document: the z-index has to do */ }
  }

  function clear() {
    overlay?.remove();
    watcher.takeRecords();
    overlay = null;
  }

  // ---- acting -------------------------------------------------------------------------------------------------

  const isField = (element) => element.isContentEditable || element.tagName === 'TEXTAREA' || (element.tagName === 'INPUT'
    && !/^(checkbox|radio|submit|button|reset|image|file|range|hidden)$/.test(element.type));

  const kindOf = (element) => ({
    what: describe(element), isField: isField(element), isList: element.tagName === 'SELECT',
    isDisabled: Boolean(element.disabled), isReadOnly: Boolean(element.readOnly),
    options: element.tagName === 'SELECT' ? [...element.options].map((option) => clean(option.label, 60)).slice(0, 50) : [],
    takesValue: element.tagName === 'INPUT' && /^(date|time|month|week|datetime-local|color|range)$/.test(element.type),
  });

  function locate({element: number}) {
    const element = marks[number - 1];
    if (!element) return {fault: 'unknown', count: marks.length};
    if (!element.isConnected) return {fault: 'gone'};
    if (!element.checkVisibility({visibilityProperty: true}) && !element.labels?.length) return {fault: 'hidden', ...kindOf(element)};
    let point = pointOf(element);
    if (!point || point.over) {
      element.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
      point = pointOf(element);
    }
    if (!point) return {fault: 'hidden', ...kindOf(element)};
    if (point.over) return {fault: 'covered', over: point.over, ...kindOf(element)};
    return {...point, ...kindOf(element)};
  }

  function at(x, y) {
    let element = topmostAt(x, y);
    if (!element) return {fault: 'nothing'};
    const label = element.closest?.('label');
    if (label?.control && !isField(element)) element = label.control;
    element = element.closest?.('select,button,a,[contenteditable]') || element;
    return {x, y, ...kindOf(element), element};
  }

  const target = (where) => where.element !== undefined ? marks[where.element - 1] : at(where.x, where.y).element;

  // A field of a kind that is not typed into (a date, a colour) takes its value whole.
  function setValue(where, value) {
    const element = target(where);
    element.focus();
    element.value = value;
    element.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
    element.dispatchEvent(new Event('change', {bubbles: true}));
    return {value: element.value};
  }

  function selectAll() {
    let active = document.activeElement;
    for (let inner; active && (inner = active.shadowRoot?.activeElement || innerDocument(active)?.activeElement);) active = inner;
    if (active && isClosed(active)) return {isForeign: true};
    if (!active || !isField(active)) return {fault: 'unfocused', what: active ? describe(active) : 'nothing'};
    if (active.isContentEditable) active.ownerDocument.getSelection().selectAllChildren(active);
    else active.select();
    return {};
  }

  function choose(where, wanted) {
    const element = target(where);
    const options = [...element.options];
    const plain = (text) => clean(text, 1000).toLowerCase();
    const found = options.find((option) => clean(option.label, 1000) === clean(wanted, 1000))
      || options.find((option) => option.value === wanted)
      || options.find((option) => plain(option.label) === plain(wanted));
    if (!found) return {fault: 'option'};
    if (found.disabled) return {fault: 'disabled'};
    element.focus();
    if (element.multiple) found.selected = true; else element.value = found.value, element.selectedIndex = found.index;
    element.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
    element.dispatchEvent(new Event('change', {bubbles: true}));
    return {value: found.label};
  }

  // Scrolls what scrolls under a point, or the page. False where nothing does.
  function scroll(x, y, across, down) {
    let element = topmostAt(x, y);
    for (; element; element = element.parentElement || element.getRootNode().host
        || element.ownerDocument.defaultView?.frameElement) {
      const isRoot = element === element.ownerDocument.scrollingElement;
      const style = getComputedStyle(element);
      if (!isRoot && !/auto|scroll/.test(down ? style.overflowY : style.overflowX)) continue;
      const before = [element.scrollLeft, element.scrollTop];
      element.scrollBy({left: across, top: down, behavior: 'instant'});
      if (element.scrollLeft !== before[0] || element.scrollTop !== before[1]) return true;
    }
    return false;
  }

  // ---- the state ----------------------------------------------------------------------------------------------

  // A hash of what the document says: elements in order, their texts, roles, links and the values of their fields.
  function digest() {
    let a = 0xdeadbeef, b = 0x41c6ce57, visited = 0;
    const feed = (text) => {
      for (let index = 0; index < text.length; index++) {
        const code = text.charCodeAt(index);
        a = Math.imul(a ^ code, 2654435761);
        b = Math.imul(b ^ code, 1597334677);
      }
      a = Math.imul(a ^ 31, 2654435761);
    };
    const stack = [document.documentElement];
    while (stack.length && visited < 4 * MAX_VISITED) {
      const node = stack.pop();
      if (!node || node === overlay) continue;
      if (node.nodeType === 3) { const text = clean(node.data, 1e6); if (text) feed(text); continue; }
      if (node.nodeType !== 1 || SKIPPED.has(node.tagName)) continue;
      visited++;
      feed('<' + node.tagName);
      for (const name of ['role', 'href', 'src', 'aria-label', 'aria-checked', 'aria-expanded', 'aria-selected', 'hidden', 'disabled', 'open'])
        if (node.hasAttribute(name)) feed(name + '=' + node.getAttribute(name));
      if ('checked' in node) feed(String(node.checked));
      if ('value' in node && typeof node.value === 'string') feed('=' + node.value);
      const children = [...childrenOf(node)];
      for (let index = children.length - 1; index >= 0; index--) stack.push(children[index]);
      feed('>' + children.length);
    }
    return (a >>> 0).toString(16) + (b >>> 0).toString(16);
  }

  // ---- looking up ---------------------------------------------------------------------------------------------

  // What fits a selector. Text is what a reader sees: of an element that is not shown, none.
  function find(selector, maxFound, maxText) {
    let found, left = maxText;
    try { found = [...document.querySelectorAll(selector)].filter((element) => element !== overlay); }
    catch { return {problem: `${JSON.stringify(selector)} is not a CSS selector`}; }
    const elements = [];
    for (const element of found.slice(0, maxFound)) {
      if (left <= 0) break;
      const isOption = element.tagName === 'OPTION', isHead = Boolean(element.closest('head'));
      const shown = isOption ? element.closest('select') || element : element;
      const isVisible = isHead || shown.checkVisibility({visibilityProperty: true});
      let text = isOption ? element.label : isHead ? element.textContent : element.innerText ?? element.textContent;
      text = isVisible ? (text || '').replace(/\s+/g, ' ').trim() : '';
      const value = typeof element.value === 'string' ? element.value : null;
      const isCut = text.length > left || (value || '').length > left;
      elements.push({text: text.slice(0, left), value: value?.slice(0, left) ?? null, isVisible, isCut});
      left -= text.length + (value || '').length;
    }
    return {value: {count: found.length, elements}};
  }

  globalThis.rollout = {
    find, observe, scroll, isForeign: () => window !== window.top && window.frameElement === null, clear, locate, setValue, selectAll, choose, digest,
    at: (x, y) => { const {element, ...found} = at(x, y); return found; },
  };
})();
