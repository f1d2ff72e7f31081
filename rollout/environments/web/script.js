  // The beginning of the script that is asked what is on a document. The files of `in_page` follow in the same function:
  // see `page.py`, which puts them together. It runs in a world of its own beside the page's scripts: it sees the page's
  // elements but none of its variables, and the page sees nothing of it. settle.js, which comes first, does the waiting.

  const CANDIDATES = 'a[href],area[href],button,input,select,textarea,summary,option,label,'
    + '[contenteditable]:not([contenteditable="false" i]),[onclick],[tabindex],[role]';
  const ROLES = new Set(['button', 'link', 'checkbox', 'radio', 'switch', 'tab', 'menuitem', 'menuitemcheckbox',
    'menuitemradio', 'option', 'combobox', 'textbox', 'searchbox', 'slider', 'spinbutton', 'listbox', 'treeitem',
    'gridcell']);
  const CONTROLS = /^(A|AREA|BUTTON|INPUT|SELECT|TEXTAREA|SUMMARY)$/;
  const SKIPPED = new Set(['SCRIPT', 'STYLE', 'NOSCRIPT', 'TEMPLATE', 'HEAD', 'META', 'LINK', 'TITLE']);
  const BLOCKS = /^(block|flex|grid|table|list-item|flow-root|table-row|table-caption)$/;
  const MAX_VISITED = 60000;

  let marks = new Map();  // elements by number
  let foreign = 0;  // frames of other origins in sight: each is asked by itself
  let overlay = null;

  async function observe(options) {
    clear();
    const settled = await settling.settle(options);
    const root = document.scrollingElement || document.documentElement;
    const seen = {
      url: location.href, title: document.title, isLoaded: settling.isLoaded(), isClosing: window.closed,
      above: Math.round(root?.scrollTop || 0),
      below: Math.max(0, Math.round((root?.scrollHeight || 0) - (root?.scrollTop || 0) - innerHeight)),
      elements: [], text: '', isCut: false, foreign: 0, numbered: 0, ...settled,
    };
    const {mode, isNext, first = 0, x = 0, y = 0} = options;
    foreign = 0;
    if (mode === 'none') return seen;
    if (mode === 'set_of_marks') freeze();
    if (!isNext) {
      if (mode !== 'accessibility_tree') marks = new Map();
      listing = null;
      if (mode !== 'coordinates') startListing(mode);
    }
    if (!listing) return seen;
    const part = takePart(options, first);
    for (const {element, number} of part.elements) marks.set(number, element);
    Object.assign(seen, {text: part.text, isCut: part.isCut, foreign, numbered: part.last});
    seen.elements = part.elements.map(({element, box, number, before}) => ({
      number, role: roleOf(element), name: nameOf(element), state: stateOf(element), before,
      box: [box.left + x, box.top + y, box.right - box.left, box.bottom - box.top].map(Math.round),
    }));
    if (mode === 'set_of_marks') draw(part.elements, listing.occupied);
    return seen;
  }

  globalThis.rollout = {
    find, observe, hasMore, fullText, scroll, isForeign: () => window !== window.top && window.frameElement === null, clear, locate,
    setValue, focused, watchFocus, focusMoved, selectAll, choose, digest,
    at: (x, y) => { const {element, ...found} = at(x, y); return found; },
  };
