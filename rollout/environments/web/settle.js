// Waits until a document has settled. It runs in the isolated world of script.js, before it. A document is settled when
// it is loaded, shows something, and for a moment nothing of its own is under way: changes, animations that end, timers
// of up to a second (see timers.js). Endless animations and recurring timers do not count, nor do elements that never
// stop changing, once a step has waited for them in vain. Requests are waited for outside of the document.
(() => {
  if (globalThis.settling) return;

  const WATCHED = ['class', 'style', 'hidden', 'disabled', 'value', 'checked', 'open', 'src', 'href', 'aria-expanded',
    'aria-hidden', 'aria-checked', 'aria-selected'];
  const CONTENT = 'img,svg,canvas,video,audio,iframe,frame,object,embed,input,button,select,textarea';
  const RESTLESS = 5;      // changes of an element within one step that did not settle
  const STYLED = 1000;     // an element whose style alone changes longer than this never stops: a script turns it
  const MAX_RECORDS = 200;
  const MAX_DEPTH = 12;
  const MARGIN = 5;        // a timer fires a little after it is due
  const LATE = 25;         // one that fires later says that the thread was busy: others wait behind it
  const MAX_LATE = 3;
  const FRAMES = 2;        // a script that animates makes its next change with the next frame, however late that comes
  const SLOW_FRAME = 500;  // longer than this none is waited for: what is not visible gets none

  let ignored = null, tell = null;
  let activeAt = performance.now();
  let hasGivenUp = false;  // this document takes too long to load; no later step waits for it again
  let hasShown = false;    // it has shown something, or nobody waits for that any more
  let isWaiting = false;
  let changes = new Map();
  let styled = new Map();  // when the style of an element first changed in this step
  const restless = new WeakSet();
  let frames = FRAMES, counting = 0;  // frames since the last change
  let isAnimated = false;
  let wake = () => {};

  // Itself or within such an element. A restless body says nothing of what is in it.
  function isRestless(node) {
    if (restless.has(node)) return true;
    for (let depth = 0; node && node !== document.body && depth < MAX_DEPTH; depth++, node = node.parentNode)
      if (restless.has(node)) return true;
    return false;
  }

  const isOurs = (record) => record.target === ignored
    || [...record.addedNodes, ...record.removedNodes].some((node) => node === ignored);

  function isTurning(record, now) {
    if (record.attributeName !== 'style' || !isWaiting) return false;
    const first = styled.get(record.target);
    if (first === undefined) styled.set(record.target, now);
    else if (now - first > STYLED) restless.add(record.target);
    return restless.has(record.target);
  }

  const watcher = new MutationObserver((records) => {
    const targets = new Set(), now = performance.now();
    if (tell && !records.every(isOurs)) tell();
    for (const record of records.slice(0, MAX_RECORDS))
      if (!targets.has(record.target) && !isOurs(record) && !isRestless(record.target) && !isTurning(record, now)) targets.add(record.target);
    if (!targets.size) return;
    activeAt = now;
    countFrames();
    if (isWaiting) for (const target of targets) changes.set(target, (changes.get(target) || 0) + 1);
    if (!hasShown) wake();
  });
  watcher.observe(document, {subtree: true, childList: true, characterData: true, attributes: true,
    attributeFilter: WATCHED});
  document.addEventListener('readystatechange', () => wake());

  function countFrames() {
    const mine = ++counting;
    frames = 0;
    const count = () => {
      if (mine !== counting) return;
      if (++frames < FRAMES) requestAnimationFrame(count);
      else wake();
    };
    requestAnimationFrame(count);
  }

  // The document and the frames that can be seen from it.
  function* documents(doc = document, depth = 0) {
    yield doc;
    if (depth > 3) return;
    for (const frame of doc.querySelectorAll('iframe,frame')) {
      let inner = null;
      try { inner = frame.contentDocument; } catch { /* of another origin */ }
      if (inner) yield* documents(inner, depth + 1);
    }
  }

  // What the document's own world knows: how long its timers take, and animations in its shadow roots.
  function askTimers(doc, {step, asked, answered}) {
    let told = '';
    const hear = (event) => { told = String(event.detail); };
    doc.addEventListener(answered, hear);
    doc.dispatchEvent(new CustomEvent(asked, {detail: step}));
    doc.removeEventListener(answered, hear);
    const [timers, inner] = told.split(' ').map((each) => Number(each) || 0);
    return {timers: timers ? timers + MARGIN : 0, inner: inner || 0};
  }

  function animationsLeft(doc) {
    let left = 0;
    for (const animation of doc.getAnimations()) {
      if (animation.playState !== 'running' || String(animation.timeline) !== '[object DocumentTimeline]') continue;
      const end = animation.effect?.getComputedTiming().endTime;
      const rest = (end - animation.currentTime) / animation.playbackRate;
      if (Number.isFinite(rest)) left = Math.max(left, rest);
    }
    return left;
  }

  function isEmpty() {
    if (hasShown) return false;
    const body = document.body;
    const canFill = body && body.tagName === 'BODY' && document.scripts.length && /^http/.test(location.protocol);
    const isFilled = !canFill || body.getElementsByTagName('*').length > 60 || body.innerText.trim()
      || body.querySelector(CONTENT) || [...body.children].some((child) => child.shadowRoot || child.tagName.includes('-'));
    hasShown = Boolean(isFilled);
    return !hasShown;
  }

  // A script that writes into a loaded or empty document often forgets to close it: it would be loading for ever.
  const isLoaded = () => document.readyState === 'complete' || location.href === 'about:blank'
    || performance.timing.loadEventEnd > 0;

  // Returns how long it waited after the document was loaded, and what was still under way when `settle` was over.
  async function settle(options) {
    const {quiet, load} = options;
    // In a frame whose sandbox forbids scripts no timer fires, and nothing changes by itself.
    if (matchMedia('(scripting: none)').matches) return {waited: 0, busy: []};
    const start = performance.now();
    let loaded = null, late = 0;
    isWaiting = true;
    changes = new Map();
    styled = new Map();
    try {
      for (;;) {
        const now = performance.now();
        const isLoading = !isLoaded() && !hasGivenUp;
        if (isLoading && now - start >= load) { hasGivenUp = true; continue; }
        let due = start + load;
        if (!isLoading) {
          loaded ??= now;
          const end = loaded + options.settle;
          const under = underWay(now, options);
          // Many pages build themselves when they are loaded: quiet counts from there at the earliest.
          due = Math.max(Math.max(activeAt, loaded) + quiet, ...Object.values(under));
          if (frames < FRAMES) due = Math.max(due, activeAt + SLOW_FRAME);
          if (now >= due) return {waited: now - loaded, busy: []};
          if (now >= end) return {waited: now - loaded, busy: giveUp(under)};
          due = Math.min(due, end);
        }
        await new Promise((resolve) => { wake = resolve; setTimeout(resolve, due - now); });
        if (performance.now() - due > LATE && ++late <= MAX_LATE) activeAt = performance.now();
      }
    } finally {
      isWaiting = false;
    }
  }

  // By name, when each of the things that count will be over.
  function underWay(now, options) {
    const under = {};
    if (activeAt + options.quiet > now) under.changes = activeAt + options.quiet;
    for (const doc of documents()) {
      const {timers, inner} = askTimers(doc, options), animations = Math.max(animationsLeft(doc), inner);
      // One that ends after the last moment is not worth waiting for.
      if (animations && animations < options.settle) under.animations = Math.max(under.animations || 0, now + animations);
      if (timers) under.timers = Math.max(under.timers || 0, now + timers);
    }
    // Animations tell of their end with a frame, which on a busy machine comes long after it.
    if (isAnimated && !under.animations) countFrames();
    isAnimated = Boolean(under.animations);
    // What an end brings about gets its moment of quiet, too.
    if (under.animations || under.timers) activeAt = Math.max(activeAt, under.animations || 0, under.timers || 0);
    if (isEmpty()) under.content = Infinity;
    return under;
  }

  function giveUp(under) {
    for (const [node, count] of changes) if (count >= RESTLESS) restless.add(node);
    hasShown = true;
    return Object.keys(under);
  }

  globalThis.settling = {
    settle, isLoaded,
    // Changes of this element, which is ours, do not count. Of any other `changed` is called.
    ignore: (element, changed) => { ignored = element; tell = changed; },
    forget: () => { watcher.takeRecords(); ignored = tell = null; },
  };
})();
