// Comes into each document before its own scripts, with the episode's options. It begins the episode as soon as the page
// is loaded, so that a page that is loaded again begins the same episode again, and it sees to it that the same actions
// show the same page: what a page draws by chance and what it takes for the date come from the seed alone, and
// what only decorates (animations, carets) or is meant for people who watch (timer, reward) is not there.
// `miniwob` is a promise of the goal.
((options) => {
  if (window !== window.top) return;

  const zero = performance.now(), today = Date.UTC(2017, 2, 1, 12);
  const now = () => today + Math.floor(performance.now() - zero);
  const Clock = new Proxy(Date, {
    construct: (target, given, made) => Reflect.construct(target, given.length ? given : [now()], made),
    apply: (target) => new target(now()).toString(),
  });
  Date.now = now;
  Date.prototype.constructor = Clock;
  window.Date = Clock;

  // A list of elements can only name those that say that they can be clicked; these pages' shapes and words do not.
  const LISTENED = /^(click|mousedown|mouseup|pointerdown|touchstart)$/;
  const listen = EventTarget.prototype.addEventListener;
  EventTarget.prototype.addEventListener = function (kind, ...rest) {
    if (LISTENED.test(kind) && this instanceof Element && !/^(html|body)$/i.test(this.tagName) && !this.onclick)
      this.setAttribute('onclick', '');
    return listen.call(this, kind, ...rest);
  };

  const hide = () => {
    const style = document.createElement('style');
    style.textContent = '#reward-display,#click-canvas,#sync-task-cover{display:none!important}'
      + '*{caret-color:transparent!important;transition:none!important;animation:none!important}'
      + '#input-flicker{visibility:visible!important}';
    document.head.append(style);
  };

  const begin = () => {
    hide();
    core.EPISODE_MAX_TIME = 2 ** 31 - 1;  // the longest that a timer can be set to: 24 days
    core.countdownTimer = () => {};
    if (window.jQuery) jQuery.fx.off = true;
    Math.seedrandom(options.seed);
    core.setDataMode(options.dataMode);
    core.startEpisodeReal();
    return core.getUtterance();
  };

  window.miniwob = new Promise((resolve, reject) => {
    // Behind the page's own handler of the same event.
    window.addEventListener('load', () => setTimeout(() => { try { resolve(begin()); } catch (error) { reject(error); } }));
  });
  window.miniwob.catch(() => {});
})
