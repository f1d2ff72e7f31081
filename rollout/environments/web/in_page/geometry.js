  // Where things are in the window, and what lies on top.

  const view = () => ({width: innerWidth, height: innerHeight});

  const NOWHERE = {x: 0, y: 0};

  // Where the frame that holds an element lies in the window, as far as frames of the same origin go.
  function offsetOf(doc) {
    if (doc === document) return NOWHERE;
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

  // The box to act on: of a link that is broken into lines, the largest of them that is in the window.
  function targetBoxOf(element) {
    const pieces = element.getClientRects();
    if (pieces.length < 2) return boxOf(element);
    const {x, y} = offsetOf(element.ownerDocument);
    const lines = [];
    for (const {left, top, right, bottom} of pieces) {
      const line = lines.at(-1);
      // Text of two directions is in several pieces on one line.
      if (line && Math.abs(line.top - top - y) < 3)
        Object.assign(line, {left: Math.min(line.left, left + x), right: Math.max(line.right, right + x), bottom: Math.max(line.bottom, bottom + y)});
      else lines.push({left: left + x, top: top + y, right: right + x, bottom: bottom + y});
    }
    const area = (line) => { const part = clipped(line); return part ? (part.right - part.left) * (part.bottom - part.top) : 0; };
    const best = lines.reduce((one, other) => area(other) > area(one) ? other : one);
    return area(best) ? best : boxOf(element);
  }

  function clipped(box) {
    const {width, height} = view();
    const left = Math.max(0, box.left), top = Math.max(0, box.top);
    const right = Math.min(width, box.right), bottom = Math.min(height, box.bottom);
    return right - left >= 1 && bottom - top >= 1 ? {left, top, right, bottom} : null;
  }

  const common = (one, other) => ({left: Math.max(one.left, other.left), top: Math.max(one.top, other.top),
    right: Math.min(one.right, other.right), bottom: Math.min(one.bottom, other.bottom)});
  const isEmpty = (box) => box.right - box.left < 1 || box.bottom - box.top < 1;

  // Where a text is, line by line, as far as `clip` shows it.
  function textBoxesOf(node, clip) {
    const range = node.ownerDocument.createRange();
    range.selectNodeContents(node);
    const {x, y} = offsetOf(node.ownerDocument);
    return [...range.getClientRects()].map((box) => common(clip,
      {left: box.left + x, top: box.top + y, right: box.right + x, bottom: box.bottom + y})).filter((box) => !isEmpty(box));
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

  // Whether nothing of a box shows, because something that holds its element is too small for it, as a closed panel.
  function isClippedAway(element, box) {
    for (let at = element.parentElement; at && at !== at.ownerDocument.body; at = at.parentElement) {
      const style = getComputedStyle(at);
      if ((style.overflowX !== 'visible' || style.overflowY !== 'visible') && isEmpty(common(box, boxOf(at)))) return true;
    }
    return false;
  }

  // A point of the element at which a click reaches it; and what lies over it where there is none.
  function pointOf(element, target = targetBoxOf(element)) {
    const box = clipped(target);
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
    if (isClippedAway(element, target)) return null;
    return {x: box.left + width / 2, y: box.top + height / 2, over: over ? describe(over) : 'nothing'};
  }
