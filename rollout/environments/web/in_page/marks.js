  // Numbers on the page for a screenshot: a frame around each element, and a label where no text is. The frames follow
  // their elements until the screenshot is taken.

  const COLOURS = ['#d11149', '#1a5fb4', '#1b7f3b', '#8f3fb0', '#b35900', '#0b7a75', '#5c4b00', '#333333'];
  const LABELS = [{font: 12, height: 14, digit: 7.3, pad: 4}, {font: 10, height: 11, digit: 6.1, pad: 3},
    {font: 9, height: 9, digit: 5.5, pad: 2}, {font: 8, height: 7, digit: 4.9, pad: 1, price: 200}];  // the last is hard to read: where it saves text
  const CELL = 2, TILE = 32;  // pixels of a cell, and cells of a tile, in which what is taken is added up
  const TEXT = 40, LABEL = 160, OTHER = 6;  // what a cell of a label costs on text, on another label, on another element
  const LATER = 2;  // what a place costs more than the one before it
  const SMALL = 22;  // pixels: an element less high has a small label
  const MOVED = 2;  // pixels that an element may move without its mark being wrong

  // Of HTML also in documents that are none, such as pictures and feeds.
  const makeBox = () => document.createElementNS('http://www.w3.org/1999/xhtml', 'div');

  // Adds up what lies in a place, in cells. A box is kept in pieces, by the tiles of the window that it touches.
  function makeTiles() {
    const {width, height} = view();
    const columns = Math.ceil(width / CELL), rows = Math.ceil(height / CELL), across = Math.ceil(columns / TILE);
    const tiles = [];
    const inCells = (box) => ({left: Math.max(0, Math.floor(box.left / CELL)), top: Math.max(0, Math.floor(box.top / CELL)),
      right: Math.min(columns, Math.ceil(box.right / CELL)), bottom: Math.min(rows, Math.ceil(box.bottom / CELL))});
    return {
      add(box, amount) {
        const {left, top, right, bottom} = inCells(box);
        for (let low = top - top % TILE; low < bottom; low += TILE)
          for (let begin = left - left % TILE; begin < right; begin += TILE)
            (tiles[low / TILE * across + begin / TILE] ||= []).push({left: Math.max(left, begin), top: Math.max(top, low),
              right: Math.min(right, begin + TILE), bottom: Math.min(bottom, low + TILE), amount});
      },
      sum(box) {
        const {left, top, right, bottom} = inCells(box);
        let total = 0;
        for (let low = top - top % TILE; low < bottom; low += TILE)
          for (let begin = left - left % TILE; begin < right; begin += TILE) {
            const pieces = tiles[low / TILE * across + begin / TILE];
            for (let index = pieces ? pieces.length - 1 : -1; index >= 0; index--) {
              const piece = pieces[index];
              const wide = Math.min(right, piece.right) - Math.max(left, piece.left);
              const high = Math.min(bottom, piece.bottom) - Math.max(top, piece.top);
              if (wide > 0 && high > 0) total += wide * high * piece.amount;
            }
          }
        return total;
      },
      count(box) {
        const {left, top, right, bottom} = inCells(box);
        return Math.max(0, right - left) * Math.max(0, bottom - top);
      },
    };
  }

  // A line's box has room above and below its letters.
  const lettersOf = (box) => {
    const height = box.bottom - box.top;
    return {...box, top: box.top + height * .14, bottom: box.bottom - height * .1};
  };

  // What an element shows beside text nodes: a field's value, or an icon that is all there is of it.
  function contentOf({element, box}) {
    const width = box.right - box.left, height = box.bottom - box.top;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) && !/^(checkbox|radio|image)$/.test(element.type)) {
      const text = element.selectedOptions?.[0]?.label || element.value || element.placeholder || '';
      const size = parseFloat(getComputedStyle(element).fontSize) || 13, long = Math.min(width, text.length * size * .6 + 12);
      const isCentred = /^(submit|button|reset|file)$/.test(element.type), middle = (box.top + box.bottom) / 2;
      const left = isCentred ? (box.left + box.right - long) / 2 : box.left;
      const top = element.tagName === 'TEXTAREA' ? box.top : middle - size * .55;
      return text ? [{left, right: left + long, top, bottom: top + size * 1.1}] : [];
    }
    return width < 40 && height < 40 && !clean(element.textContent) ? [box] : [];
  }

  // Places for a label of this size: beside the element, above it, below it, on its corners.
  function placesOf(box, width, height) {
    const right = box.right - width, low = box.bottom - height, middle = (box.top + box.bottom - height) / 2;
    const above = [[right, box.top - height - 1], [box.left, box.top - height - 1]];
    const below = [[right, box.bottom + 1], [box.left, box.bottom + 1]];
    const before = [[box.left - width - 1, middle], [box.left - width - 1, box.top]];  // seems to belong to what is left of it
    const corners = [[right, box.top], [box.left, box.top], [right, low], [box.left, low]];
    const edges = [[right, box.top - height / 2], [box.left, box.top - height / 2], [box.right - width / 2, box.top - height / 2]];
    const isLarge = box.right - box.left > 3 * width && box.bottom - box.top > 2.2 * height;
    const beside = [[box.right + 1, middle], [box.right + 1, box.top]];
    if (isLarge) return [...corners, ...above, ...beside, ...below, ...before, ...edges];
    const outside = box.bottom - box.top < SMALL ? [...beside, ...above, ...below] : [...above, ...beside, ...below];
    return [...outside, ...before, ...edges, ...corners];
  }

  // The place that hides the least, in the largest size that hides nothing.
  function placeLabel(box, text, taken, others) {
    const {width, height} = view();
    const isSmall = box.bottom - box.top < SMALL || box.right - box.left < 30;
    let best = null;
    for (const size of isSmall ? LABELS.slice(1) : LABELS) {
      const wide = size.digit * text.length + size.pad;
      let least = size.price || 0;  // that the place costs wherever it is; later places cost more
      for (const [left, top] of placesOf(box, wide, size.height)) {
        if (best && least >= best.cost) break;
        const right = left + wide, bottom = top + size.height;
        if (left >= 0 && top >= 0 && right <= width && bottom <= height) {
          const inner = {left: left + 1, top: top + 1, right: right - 1, bottom: bottom - 1};
          const own = common(inner, box), hidden = taken.sum(inner);
          const covered = others.sum(inner) - (isEmpty(own) ? 0 : others.count(own));
          const cost = least + hidden + OTHER * covered;
          if (!best || cost < best.cost) best = {left, top, right, bottom, size, cost, hidden};
        }
        least += LATER;
      }
      if (best && !best.hidden) break;
    }
    // An element as large as the window leaves no place but on itself.
    const size = LABELS[0], wide = size.digit * text.length + size.pad;
    return best || {left: Math.max(0, Math.min(box.left, width - wide)), top: Math.max(0, box.top), right: 0, bottom: 0, size};
  }

  // Animations stand still while the page is marked. By a rule of style, which leaves them as they were when it goes.
  let still = null;

  function freeze() {
    if (!document.getAnimations?.().some((animation) => animation.playState === 'running')) return;
    isMoving = true;  // a script's animation goes on
    still = new CSSStyleSheet();
    still.replaceSync('*,::before,::after{animation-play-state:paused!important}');
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];
  }

  function unfreeze() {
    if (still) document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== still);
    still = null;
  }

  // One sheet for all marks of a document: a style of their own would be parsed for each.
  let looks = null;

  function makeLooks() {
    const sheet = new CSSStyleSheet();
    const sizes = LABELS.map(({font, height}) => `.size-${font}{font:bold ${font}px/${height}px monospace${height > font ? '' : ';overflow:hidden'}}`);
    const colours = COLOURS.map((colour, at) => `.frame-${at}{border-color:${colour}}.label-${at}{background:${colour}}`);
    sheet.replaceSync('.frame,.label{position:absolute;box-sizing:border-box}.frame{border-style:solid}.thin{border-width:1px}'
      + `.thick{border-width:2px}.label{color:#fff;text-align:center}${[...sizes, ...colours].join('')}`);
    return sheet;
  }

  const geometry = (left, top, width, height) => `left:${left}px;top:${top}px;width:${width}px;height:${height}px`;

  // The numbers lie in the top layer, above dialogs, until the screenshot is taken.
  function draw(elements, occupied) {
    overlay = makeBox();
    settling.ignore(overlay, startFollowing);
    overlay.setAttribute('popover', 'manual');
    overlay.style.cssText = 'all:initial;position:fixed;inset:0;width:100vw;height:100vh;margin:0;padding:0;border:0;'
      + 'background:transparent;pointer-events:none;overflow:hidden;z-index:2147483647;display:block';
    const root = overlay.attachShadow({mode: 'closed'});
    root.adoptedStyleSheets = [looks ||= makeLooks()];
    const taken = makeTiles(), others = makeTiles();
    occupied.forEach((box) => taken.add(lettersOf(box), TEXT));
    const shown = elements.map((entry) => ({...entry, part: clipped(entry.box)})).filter(({part}) => part);
    for (const entry of shown) {
      contentOf(entry).forEach((box) => taken.add(box, TEXT));
      others.add(entry.part, 1);
    }
    // The smallest first: they have the fewest places.
    const area = ({part}) => (part.right - part.left) * (part.bottom - part.top);
    const labels = makeBox();
    drawn = [...shown].sort((one, other) => area(one) - area(other)).map(({element, box, part, number}) => {
      const colour = (number - 1) % COLOURS.length;
      const line = part.bottom - part.top < 24 || part.right - part.left < 24 ? 'thin' : 'thick';
      const frame = makeBox(), label = makeBox(), text = String(number);
      // Around the element, so that its own first letters stay.
      frame.className = `frame ${line} frame-${colour}`;
      frame.style.cssText = geometry(part.left - 1, part.top - 1, part.right - part.left + 2, part.bottom - part.top + 2);
      const place = placeLabel(part, text, taken, others);
      taken.add(place, LABEL);
      label.textContent = text;
      label.className = `label size-${place.size.font} label-${colour}`;
      label.style.cssText = geometry(place.left, place.top, place.size.digit * text.length + place.size.pad, place.size.height);
      root.append(frame);
      labels.append(label);
      return {element, box, parts: [frame, label]};
    });
    root.append(labels);  // above all frames
    document.documentElement?.append(overlay);
    try { overlay.showPopover(); } catch { /* an old Chromium, or an empty document: the z-index has to do */ }
    // Nothing tells of what happens in a frame.
    if (isMoving || drawn.some(({element}) => element.ownerDocument !== document)) startFollowing();
  }

  let drawn = [];
  let isMoving = false;  // elements of this document have moved while it was marked, or may
  let isFollowing = false;

  for (const kind of ['scroll', 'resize', 'load', 'transitionrun', 'animationstart'])
    addEventListener(kind, startFollowing, {capture: true, passive: true});

  // A page that stands still is not asked with each frame where its elements are.
  function startFollowing() {
    if (!overlay || isFollowing) return;
    isFollowing = true;
    requestAnimationFrame(follow);
  }

  function follow() {
    isFollowing = Boolean(overlay);
    if (!overlay) return;
    for (const {element, box, parts} of drawn) {
      const now = targetBoxOf(element), dx = Math.round(now.left - box.left), dy = Math.round(now.top - box.top);
      for (const {style} of parts) {
        style.transform = dx || dy ? `translate(${dx}px, ${dy}px)` : '';
        style.display = element.isConnected ? '' : 'none';
      }
    }
    requestAnimationFrame(follow);
  }

  // Takes the numbers off the page. True where an element is no longer where its mark was drawn at first.
  function clear() {
    const hasMoved = Boolean(overlay) && drawn.some(({element, box}) => {
      if (!element.isConnected) return true;
      const now = targetBoxOf(element);
      return Math.abs(now.left - box.left) > MOVED || Math.abs(now.top - box.top) > MOVED
        || Math.abs(now.right - box.right) > MOVED || Math.abs(now.bottom - box.bottom) > MOVED;
    });
    overlay?.remove();
    unfreeze();
    settling.forget();
    overlay = null;
    drawn = [];
    isMoving ||= hasMoved;
    return hasMoved;
  }
