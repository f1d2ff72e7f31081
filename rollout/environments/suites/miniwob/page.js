// Comes into each document before its own scripts, with the episode's options. It begins the episode as soon as the page
// is loaded, so that a page that is loaded again begins the same episode again, and it sees to it that the same actions
// show the same page: what a page draws by chance and what it takes for the date come from the seed alone, and
// what only decorates (animations, carets) or is meant for people who watch (timer, reward) is not there to see.
// `miniwob` is a promise of the goal.
((options) => {
  if (window !== window.top) return;

  // The same day in every run. The clock runs fast, so that animations, which go by it, are over in a moment.
  const FAST = 100, today = Date.UTC(2017, 2, 1), tick = performance.now.bind(performance), zero = tick();
  const passed = () => FAST * (tick() - zero);
  const now = () => today + Math.floor(passed());
  const Clock = new Proxy(Date, {
    construct: (target, given, made) => Reflect.construct(target, given.length ? given : [now()], made),
    apply: (target) => new target(now()).toString(),
  });
  Date.now = now;
  Date.prototype.constructor = Clock;
  window.Date = Clock;
  performance.now = passed;

  // A list of elements can only name those that say that they can be clicked; these pages' shapes and words do not.
  // What holds or is part of one that does is left as it is. Lists that can be sorted listen for their items.
  const LISTENED = /^(click|mousedown|mouseup|pointerdown|touchstart)$/;
  const CLEAR = 'a[href],button,input,select,textarea', WHOLE = 'html,body,#wrap,#area';
  const listen = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (kind, ...rest) {
    if (LISTENED.test(kind) && this instanceof Element) (this.matches('.ui-sortable') ? [...this.children] : [this]).forEach(mark);
    return listen.call(this, kind, ...rest);
  };
  const mark = (element) => {
    if (element.onclick || element.closest(CLEAR) || element.querySelector(CLEAR) || element.matches(WHOLE)) return;
    element.setAttribute('onclick', '');
    // Icons have no other name than this.
    const name = element.id || element.getAttribute('class');
    if (name && !element.hasAttribute('name')) element.setAttribute('name', name);
  };

  const hide = () => {
    const style = document.createElement('style');
    style.textContent = '#reward-display,#click-canvas,#sync-task-cover{display:none!important}'
      + '*{caret-color:transparent!important;transition:none!important;animation:none!important}'
      + '#input-flicker{display:inline!important}';
    document.head.append(style);
  };

  // Some icons are as large as their image, and another one when the mouse is over them: all have to be there before.
  const kept = [];
  const fetchIcons = () => {
    const rules = [...document.styleSheets].filter((sheet) => !sheet.href).flatMap((sheet) => [...sheet.cssRules]);
    const urls = new Set(rules.flatMap((rule) => [...rule.cssText.matchAll(/url\("?(.*?)"?\)/g)].map((found) => found[1])));
    return Promise.all([...urls].map((url) => new Promise((fetched) => {
      const image = new Image();
      kept.push(image);
      image.onload = image.onerror = fetched;
      image.src = url;
    })));
  };

  const begin = async () => {
    hide();
    await fetchIcons();
    core.EPISODE_MAX_TIME = 2 ** 31 - 1;  // the longest that a timer can be set to: 24 days
    core.countdownTimer = () => {};
    Math.seedrandom(options.seed);
    core.setDataMode(options.dataMode);
    core.startEpisodeReal();
    return core.getUtterance();
  };

  window.miniwob = new Promise((resolve, reject) => {
    // Behind the page's own handler of the same event.
    window.addEventListener('load', () => setTimeout(() => begin().then(resolve, reject)));
  });
  window.miniwob.catch(() => {});
})
