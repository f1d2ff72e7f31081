// Notes the timers that a page sets, so that a step can wait for them, and its shadow roots, whose animations the
// document does not tell of. It runs in the page's own world before the page's scripts. Timers work as before: callbacks, ids and errors are the browser's own. The functions look native,
// and nothing new is reachable from the page: questions and answers are events whose names the page does not know.
// Everything is taken from the prototypes now, since the page may replace it later.
((asked, answered) => {
  const SHORTEST = 40, LONGEST = 1000;  // a shorter timer fires while a step waits for quiet anyway
  const TICKS = 3, TICKING = 600;       // of an interval, the first ticks within this time count, and the very first
  const REARMED = 3, FORGOTTEN = 2000, MAX_KNOWN = 300;
  const {apply} = Reflect, {create, defineProperty, getOwnPropertyDescriptor} = Object;
  const {isFinite} = Number, {slice} = String.prototype, {dispatchEvent, addEventListener} = EventTarget.prototype;
  const Answer = CustomEvent, detailOf = getOwnPropertyDescriptor(CustomEvent.prototype, 'detail').get;
  const animationsOf = ShadowRoot.prototype.getAnimations, {max, min} = Math, Weak = WeakRef, {deref} = WeakRef.prototype;
  const clock = performance, read = performance.now, toText = Function.prototype.toString;
  const now = () => apply(read, clock, []);

  let roots = [];
  let pending = create(null), pendingCount = 0;
  let kinds = create(null), kindCount = 0;
  let step = -1;

  // Timers with the same delay and source are of one kind. A kind that fires and is set again three times within a step
  // is a clock or a poll: nobody waits for it. Nor for one of any delay, set again from the same source twice as often.
  function kindOf(callback, delay) {
    const key = delay + (typeof callback === 'function' ? apply(slice, apply(toText, callback, []), [0, 120]) : '');
    if (!kinds[key]) {
      if (++kindCount > MAX_KNOWN) { kinds = create(null); kindCount = 1; }
      kinds[key] = {rearmed: 0, due: 0, isRecurring: false};
    }
    return kinds[key];
  }

  function noteKind(kind, due, at, most) {
    if (kind.due && at >= kind.due - 1 && ++kind.rearmed >= most) kind.isRecurring = true;
    kind.due = due;
  }

  function noteSet(id, values, ticks = 1) {
    const callback = values[0], given = values[1];
    const delay = typeof given === 'number' ? given : typeof given === 'string' ? +given : 0;
    if (!isFinite(delay) || delay < SHORTEST || delay > LONGEST) return;
    const kind = kindOf(callback, delay), source = kindOf(callback, ''), at = now();
    const due = at + max(delay, min(ticks * delay, TICKING));
    noteKind(kind, due, at, REARMED);
    noteKind(source, due, at, 2 * REARMED);
    if (++pendingCount > MAX_KNOWN) prune(at);
    pending[id] = {due, kind, source};
  }

  function noteCleared(_, values) {
    const id = values[0], timer = typeof id === 'number' ? pending[id] : undefined;
    if (!timer) return;
    if (timer.kind.due === timer.due) timer.kind.due = 0;
    if (timer.source.due === timer.due) timer.source.due = 0;
    delete pending[id];
  }

  function noteRoot(root) {
    if (roots.length >= MAX_KNOWN) {
      const left = [];
      for (let place = 0; place < roots.length; place++) if (apply(deref, roots[place], [])) left[left.length] = roots[place];
      roots = left;
    }
    if (roots.length < MAX_KNOWN) roots[roots.length] = new Weak(root);
  }

  // How many milliseconds the last animation in a shadow root that ends is away.
  function animationsLeft() {
    let left = 0;
    for (let place = 0; place < roots.length; place++) {
      const root = apply(deref, roots[place], []);
      const animations = root && root.isConnected ? apply(animationsOf, root, []) : [];
      for (let index = 0; index < animations.length; index++) {
        const animation = animations[index];
        if (animation.playState !== 'running' || animation.timeline !== document.timeline || !animation.effect) continue;
        const rest = (animation.effect.getComputedTiming().endTime - animation.currentTime) / animation.playbackRate;
        if (isFinite(rest) && rest > left) left = rest;
      }
    }
    return left;
  }

  function prune(at) {
    const left = create(null);
    pendingCount = 0;
    for (const id in pending) if (pending[id].due > at) { left[id] = pending[id]; pendingCount++; }
    pending = left;
  }

  const natives = [];
  function watch(owner, name, note) {
    const native = owner[name];
    const watched = new Proxy(native, {
      apply(target, self, values) {
        const value = apply(target, self, values);
        note(value, values);
        return value;
      },
    });
    natives[natives.length] = [watched, native];
    defineProperty(owner, name, {...getOwnPropertyDescriptor(owner, name), value: watched});
  }
  watch(globalThis, 'setTimeout', noteSet);
  watch(globalThis, 'setInterval', (id, values) => noteSet(id, values, TICKS));
  watch(Element.prototype, 'attachShadow', noteRoot);
  watch(globalThis, 'clearTimeout', noteCleared);
  watch(globalThis, 'clearInterval', noteCleared);
  const shown = new Proxy(toText, {
    apply(target, self, values) {
      for (let place = 0; place < natives.length; place++) if (natives[place][0] === self) self = natives[place][1];
      return apply(target, self, values);
    },
  });
  natives[natives.length] = [shown, toText];
  defineProperty(Function.prototype, 'toString', {...getOwnPropertyDescriptor(Function.prototype, 'toString'), value: shown});

  // The question has the number of the step; the answer is how many milliseconds the last timer to wait for is away, and
  // the last animation.
  apply(addEventListener, document, [asked, (event) => {
    const at = now(), asking = apply(detailOf, event, []);
    if (asking !== step) {
      step = asking;
      for (const key in kinds) {
        if (!kinds[key].isRecurring) kinds[key].rearmed = 0;
        else if (at > kinds[key].due + FORGOTTEN) { delete kinds[key]; kindCount--; }
      }
    }
    prune(at - 5);  // one that is due has perhaps not fired yet
    let left = 0;
    for (const id in pending) {
      const {due, kind, source} = pending[id];
      if (!kind.isRecurring && !source.isRecurring && due - at > left) left = due - at;
    }
    apply(dispatchEvent, document, [new Answer(answered, {detail: left + ' ' + animationsLeft()})]);
  }]);
})
