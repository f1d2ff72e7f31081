// What the shipped sites do in the browser. Each behaviour is asked for by an attribute in the markup.
document.addEventListener('submit', (event) => {
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});

document.addEventListener('change', (event) => {
  if (event.target.matches('select[data-submits]')) event.target.form.requestSubmit();
});

document.addEventListener('click', (event) => {
  const target = event.target.closest('button, [role=tab]');
  if (!target) return;
  if (target.dataset.opens) document.getElementById(target.dataset.opens).showModal();
  if (target.hasAttribute('data-closes')) target.closest('dialog').close();
  if (target.hasAttribute('data-dismisses')) {
    document.cookie = `dismissed=${target.dataset.dismisses}; path=/`;
    document.getElementById(target.dataset.dismisses).remove();
  }
  if (target.getAttribute('role') === 'tab') openTab(target);
  if (target.hasAttribute('data-sorts')) sortBy(target.closest('th'));
  if (target.dataset.steps) {
    const field = document.getElementById(target.dataset.of);
    const next = Number(field.value || 0) + Number(target.dataset.steps);
    field.value = Math.max(Number(field.min || 0), Math.min(Number(field.max || 99), next));
  }
});

function openTab(tab) {
  for (const other of tab.closest('[role=tablist]').querySelectorAll('[role=tab]')) {
    other.setAttribute('aria-selected', String(other === tab));
    document.getElementById(other.getAttribute('aria-controls')).hidden = other !== tab;
  }
}

function sortBy(heading) {
  const row = heading.parentElement, body = heading.closest('table').tBodies[0];
  const column = [...row.children].indexOf(heading);
  const isDown = heading.getAttribute('aria-sort') === 'ascending';
  for (const other of row.children) other.removeAttribute('aria-sort');
  heading.setAttribute('aria-sort', isDown ? 'descending' : 'ascending');
  const value = (line) => line.children[column].textContent.trim();
  const plain = (text) => Number(text.replace(/[^\d.-]/g, ''));
  const lines = [...body.rows];
  const isNumeric = lines.every((line) => /^[^\w]*[\d,.]+/.test(value(line)));
  lines.sort((a, b) => isNumeric ? plain(value(a)) - plain(value(b)) : value(a).localeCompare(value(b)));
  body.append(...(isDown ? lines.reverse() : lines));
}

// Suggestions below a search field: only the newest question's answer counts.
for (const field of document.querySelectorAll('input[data-suggests]')) {
  const list = document.getElementById(field.dataset.suggests);
  let asked = 0;
  field.addEventListener('input', async () => {
    const mine = ++asked;
    const reply = field.value.trim() ? await fetch(`/suggest?q=${encodeURIComponent(field.value)}`) : null;
    const found = reply ? await reply.json() : [];
    if (mine !== asked) return;
    list.replaceChildren(...found.map(({title, href}) => {
      const link = document.createElement('a');
      link.textContent = title;
      link.href = href;
      return link;
    }));
    list.hidden = !found.length;
  });
  field.addEventListener('keydown', (event) => { if (event.key === 'Escape') list.hidden = true; });
}
