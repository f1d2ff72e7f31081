  // What a page lists: things to act on and the text between them, in the document's order. An observation shows the
  // first part of it; `more` takes the next one. Numbers are given when an element is shown, and mean it from then on.

  const MAX_FULL_TEXT = 1000000;

  const isClosed = (element) => /^I?FRAME$/.test(element.tagName) && !innerDocument(element);

  function isInteractive(element, style = getComputedStyle(element)) {
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
    if (isScroller(element, style)) return true;
    if (style.cursor !== 'pointer') return false;
    const parent = element.parentElement;
    // The outermost element with the pointer is the one: its parts have inherited it.
    return !parent || getComputedStyle(parent).cursor !== 'pointer';
  }

  // A box of mere text that scrolls by itself. One that holds something to act on is scrolled by that.
  function isScroller(element, style = getComputedStyle(element)) {
    return /auto|scroll/.test(style.overflowY) && element.scrollHeight > element.clientHeight + 8 && element.clientHeight >= 40
      && element !== element.ownerDocument.body && element !== element.ownerDocument.documentElement
      && !CONTROLS.test(element.tagName) && !element.isContentEditable && !element.querySelector(CANDIDATES);
  }

  // Whether an element's name says all that stands in it, so that its text need not be listed beside it.
  function isToldByName(element) {
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(element.tagName)) return true;
    if (isScroller(element)) return false;
    const text = clean(element.innerText ?? element.textContent, 1000), label = element.getAttribute('aria-label');
    return text.length <= MAX_NAME && (!label || label.includes(text));
  }

  function isTextSeen(node, box) {
    const parent = node.parentElement;
    if (parent && !parent.checkVisibility({visibilityProperty: true, opacityProperty: true})) return false;
    const over = topmostAt((box.left + box.right) / 2, (box.top + box.bottom) / 2);
    return !over || !parent || isWithin(over, parent) || isWithin(parent, over);
  }

  // What is in the window: things to act on that nothing covers, and text. `occupied` collects where text lies.
  function* readWindow(occupied) {
    const {width, height} = view();
    const stack = [{node: document.documentElement, clip: {left: 0, top: 0, right: width, bottom: height}}];
    let visited = 0, line = '';
    const flush = () => {
      const text = clean(line, 2000).replace(/^[|\s]+|[|\s]+$/g, '');
      line = '';
      return text ? [{text}] : [];
    };
    while (stack.length) {
      const {node, clip, isTold, mark} = stack.pop();
      if (mark === '\n') { yield* flush(); continue; }
      if (mark) { line += mark; continue; }
      if (node?.nodeType === 3) {
        const boxes = textBoxesOf(node, clip);
        occupied.push(...boxes);
        if (!isTold && boxes.length && isTextSeen(node, boxes[0])) line += node.data.replace(/\s+/g, ' ');
        continue;
      }
      if (node?.nodeType !== 1 || node === overlay || SKIPPED.has(node.tagName)) continue;
      if (++visited > MAX_VISITED) { yield* flush(); yield {isLimit: true}; return; }
      const box = boxOf(node);
      const isInside = box.right > 0 && box.bottom > 0 && box.left < width && box.top < height;
      let isInnerTold = isTold, inner = clip, isBlock = false;
      if (isInside) {
        const style = getComputedStyle(node);
        isBlock = BLOCKS.test(style.display) || node.tagName === 'BR';
        if (isBlock) yield* flush();
        if (isClosed(node)) foreign++;
        if (isInteractive(node, style) && node.checkVisibility({visibilityProperty: true})
            && (box.right - box.left) * (box.bottom - box.top) < .9 * width * height) {
          const target = targetBoxOf(node), point = pointOf(node, target);
          if (point && !point.over) {
            yield* flush();
            yield {element: node, box: target};
            isInnerTold ||= isToldByName(node);
          }
        }
        isInnerTold ||= node.tagName === 'LABEL' && Boolean(node.control);
        if (innerDocument(node) || style.overflowX !== 'visible' || style.overflowY !== 'visible') inner = common(clip, box);
        if (node.tagName === 'IMG' && node.alt && !isInnerTold && box.right - box.left > 20) line += ` (image: ${clean(node.alt)}) `;
      }
      if (isBlock) stack.push({mark: '\n'});
      if (/^T[DH]$/.test(node.tagName) && isInside) stack.push({mark: ' | '});
      const isFlat = box.right - box.left < 1 || box.bottom - box.top < 1;
      const children = [...childrenOf(node)];
      for (let index = children.length - 1; index >= 0; index--) {
        const child = children[index], isText = child.nodeType === 3;
        if (isText && !/\S/.test(child.data)) stack.push({mark: ' '});
        else if (child.nodeType === 1 || isText && (isInside || isFlat)) stack.push({node: child, clip: inner, isTold: isInnerTold});
      }
    }
    yield* flush();
  }

  // The page as text: from the window's top on with things to act on, or, where `isWhole`, all of it to read.
  function* readText(isWhole = false) {
    const root = document.body || document.documentElement;
    const stack = root ? [{node: root}] : [];
    let visited = 0;
    while (stack.length) {
      const {node, mark} = stack.pop();
      if (mark) { yield {text: mark}; continue; }
      if (node.nodeType === 3) {
        const text = node.data.replace(/\s+/g, ' ');
        if (text.trim()) yield {text};
        continue;
      }
      if (node.nodeType !== 1 || node === overlay || SKIPPED.has(node.tagName)) continue;
      if (++visited > MAX_VISITED) { visited = 0; yield {isLimit: true}; }
      const style = getComputedStyle(node);
      if (style.display === 'none' || (style.display !== 'contents' && !node.checkVisibility())) continue;
      const box = boxOf(node);
      const isAbove = !isWhole && box.bottom <= 0 && box.bottom > box.top && style.position !== 'fixed';
      if (isAbove && style.overflow !== 'visible') continue;
      const isBlock = BLOCKS.test(style.display) || node.tagName === 'BR';
      if (isBlock) yield {text: '\n'};
      if (isWhole && /^(INPUT|SELECT|TEXTAREA)$/.test(node.tagName)) {
        if (node.type !== 'hidden') yield {text: ` (${line(node)}) `};
        continue;
      }
      // A body that listens to clicks is the page itself.
      if (!isWhole && !isAbove && style.visibility === 'visible' && node !== document.body && isInteractive(node, style)) {
        const told = line(node);
        yield {element: node, box, told};
        if (isBlock) yield {text: '\n'};
        // Whatever is no control by itself may hold others, and more to read than its name says.
        if (CONTROLS.test(node.tagName) || !(node.querySelector(CANDIDATES) || told.includes('…"') || isScroller(node, style))) continue;
      }
      if (/^H[1-6]$/.test(node.tagName)) yield {text: '#'.repeat(Number(node.tagName[1])) + ' '};
      if (node.tagName === 'LI') yield {text: '- '};
      if (node.tagName === 'IMG' && node.alt) yield {text: `(image: ${clean(node.alt)})`};
      if (!isAbove && isClosed(node)) foreign++;
      if (isBlock) stack.push({mark: '\n'});
      if (/^T[DH]$/.test(node.tagName)) stack.push({mark: ' | '});
      const children = isAbove ? [...childrenOf(node)].filter((child) => child.nodeType !== 3) : [...childrenOf(node)];
      for (let index = children.length - 1; index >= 0; index--) stack.push({node: children[index]});
    }
  }

  const tidy = (text) => text.replace(/[ \t]+/g, ' ').replace(/ ?\n ?/g, '\n').replace(/\n{2,}/g, '\n').trim();

  // All that the document has to read, scrolled out of sight or not.
  function fullText() {
    let text = '';
    for (const item of readText(true)) {
      if (item.isLimit || text.length > MAX_FULL_TEXT) break;
      text += item.text;
    }
    return tidy(text).slice(0, MAX_FULL_TEXT);
  }

  function line(element) {
    const name = nameOf(element), state = stateOf(element);
    return roleOf(element) + (name ? ' ' + JSON.stringify(name) : '') + (state ? ` (${state})` : '');
  }

  // ---- parts --------------------------------------------------------------------------------------------------

  let listing = null;  // what was not shown yet of the page as it was last observed

  function startListing(mode) {
    const occupied = [];
    // The whole window at once: numbers are placed where no text is, whichever part it belongs to.
    const items = mode === 'text' ? readText() : mode === 'accessibility_tree' ? readTree()
      : [...readWindow(occupied)][Symbol.iterator]();
    listing = {mode, items, occupied, held: null, isPaused: false};
  }

  function nextItem() {
    const item = listing.held || listing.items.next().value;
    listing.held = null;
    return item;
  }

  // The next part: so many elements and so much text. What does not fit is held for the part after it. `first`: the
  // highest number that was given before.
  function takePart({maxElements, maxText}, first) {
    const elements = [], parts = [];
    const isList = listing.mode === 'set_of_marks', isTree = listing.mode === 'accessibility_tree';
    let size = 0, isCut = false, last = isTree ? Math.max(first, lastKept) : first;
    listing.isPaused = false;
    for (let item; (item = nextItem());) {
      if (item.isLimit) { isCut = true; listing.isPaused = !isList; break; }
      const {element} = item;
      if (element && isList && !element.isConnected) continue;
      const number = element && (isTree && numbers.get(element) || last + 1);
      const text = !element ? item.text : isList ? '' : isTree ? `${item.indent}[${number}] ${item.told}\n` : ` [${number}] ${item.told} `;
      const isFull = element ? elements.length >= maxElements || size && size + text.length > maxText : size >= maxText;
      if (isFull && !element && !text.trim()) continue;
      if (isFull) { listing.held = item; isCut = true; break; }
      const room = maxText - size;
      if (!element && text.length > room) listing.held = {text: text.slice(room)};
      const shown = element ? text : text.slice(0, room);
      size += shown.length;
      if (element) {
        last = Math.max(last, number);
        if (isTree) { numbers.set(element, number); lastKept = last; }
        elements.push({...item, number, before: isList ? parts.splice(0).join('\n') : ''});
      }
      if (shown) parts.push(shown);
    }
    const joined = parts.join(isList ? '\n' : '');
    const rest = isList || isTree ? joined.trimEnd() : tidy(joined);
    return {elements, text: rest, isCut, last};
  }

  function hasMore() {
    return Boolean(listing && (listing.held || listing.isPaused));
  }
