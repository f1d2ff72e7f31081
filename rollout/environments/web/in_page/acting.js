  // Finding what a call means, and what cannot be done by mouse and keyboard.

  const isField = (element) => element.isContentEditable || element.tagName === 'TEXTAREA' || (element.tagName === 'INPUT'
    && !/^(checkbox|radio|submit|button|reset|image|file|range|hidden)$/.test(element.type));

  const kindOf = (element) => ({
    what: describe(element), isField: isField(element), isList: element.tagName === 'SELECT',
    isDisabled: Boolean(element.disabled), isReadOnly: Boolean(element.readOnly),
    options: element.tagName === 'SELECT' ? [...element.options].map((option) => clean(option.label, 60)).slice(0, 50) : [],
    takesValue: element.tagName === 'INPUT' && /^(date|time|month|week|datetime-local|color|range)$/.test(element.type),
  });

  function locate({element: number}) {
    const element = marks.get(number);
    if (!element) return {fault: 'unknown'};
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

  const target = (where) => where.element !== undefined ? marks.get(where.element) : at(where.x, where.y).element;

  // A field of a kind that is not typed into (a date, a colour) takes its value whole.
  function setValue(where, value) {
    const element = target(where);
    element.focus();
    element.value = value;
    element.dispatchEvent(new Event('input', {bubbles: true, composed: true}));
    element.dispatchEvent(new Event('change', {bubbles: true}));
    return {value: element.value};
  }

  function activeElement() {
    let active = document.activeElement;
    for (let inner; active && (inner = active.shadowRoot?.activeElement || innerDocument(active)?.activeElement);) active = inner;
    return active;
  }

  // The field that has the focus.
  function focused() {
    const active = activeElement();
    if (active && isClosed(active)) return {isForeign: true};
    if (!active || !isField(active)) return {fault: 'unfocused', what: active ? describe(active) : 'nothing'};
    return {isLine: active.tagName === 'INPUT', isBox: active.maxLength === 1, isRich: active.isContentEditable};
  }

  let focusedBefore = null;

  function watchFocus() { focusedBefore = activeElement(); }

  // Returns when another element than at `watchFocus` has the focus, or after so many milliseconds.
  async function focusMoved(longest) {
    const end = performance.now() + longest;
    while (activeElement() === focusedBefore && performance.now() < end)
      await new Promise((resolve) => setTimeout(resolve, 5));
  }

  function selectAll() {
    const field = focused();
    if (field.isForeign || field.fault) return field;
    const active = activeElement();
    if (active.isContentEditable) active.ownerDocument.getSelection().selectAllChildren(active);
    else active.select();
    return field;
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

  // Scrolls what scrolls under a point, or the page, by a multiple of its own size. Returns false if nothing scrolls, and
  // null if a frame of another origin lies there. The caller asks that frame first, and then calls again with `isAsked`.
  function scroll(x, y, across, down, isAsked = false) {
    let element = topmostAt(x, y);
    if (!isAsked && element && isClosed(element)) return null;
    for (; element; element = element.parentElement || element.getRootNode().host
        || element.ownerDocument.defaultView?.frameElement) {
      const isRoot = element === element.ownerDocument.scrollingElement;
      const style = getComputedStyle(element);
      if (!isRoot && !/auto|scroll/.test(down ? style.overflowY : style.overflowX)) continue;
      const before = [element.scrollLeft, element.scrollTop];
      const width = Math.min(isRoot ? innerWidth : element.clientWidth, innerWidth);
      const height = Math.min(isRoot ? innerHeight : element.clientHeight, innerHeight);
      element.scrollBy({left: across * width, top: down * height, behavior: 'instant'});
      if (element.scrollLeft !== before[0] || element.scrollTop !== before[1]) return true;
    }
    return false;
  }
