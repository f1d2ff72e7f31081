  // What programs ask of a document: a hash of its state, and what fits a selector.

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
