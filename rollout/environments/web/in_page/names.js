  // What an element is: its role, its name, its state.

  const MAX_NAME = 120;
  const clean = (text, limit = MAX_NAME) => {
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
    return TAG_ROLES[element.tagName] || (element.isContentEditable ? 'textbox' : isScroller(element) ? 'scrollable' : 'clickable');
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
    if (!name.trim() && !NAMED_APART.test(roleOf(element)) && !isScroller(element)) { seen.clear(); name = content(element); }
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

  function innerDocument(element) {
    if (element.tagName !== 'IFRAME' && element.tagName !== 'FRAME') return null;
    try { return element.contentDocument; } catch { return null; }
  }

  function childrenOf(node) {
    const inner = node.nodeType === 1 ? innerDocument(node) : null;
    if (inner) return inner.documentElement ? [inner.documentElement] : [];
    if (node.shadowRoot) return node.shadowRoot.childNodes;
    if (node.tagName === 'SLOT' && node.assignedNodes().length) return node.assignedNodes();
    return node.childNodes;
  }
