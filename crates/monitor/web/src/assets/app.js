// Keeps a page up to date, sorts and filters its table of guests, and leads from a point of a
// chart to its minute. Without it the page is all there; it only stands still.
'use strict';

const table = document.querySelector('table.guests');
const rows = new Map();
const cells = new Map();

// What is replaced while the page stays: the rows, and what is shown of now.
function find() {
  rows.clear();
  cells.clear();
  if (table) for (const row of table.tBodies[0].rows) rows.set(row.dataset.key, row);
  for (const cell of document.querySelectorAll('[data-now]')) cells.set(cell.dataset.now, cell);
}

// Sorting: a click on a head sorts here what the server would sort.
function value(row, column) {
  const text = row.cells[column].textContent.trim();
  const number = Number.parseFloat(text);
  return Number.isNaN(number) ? text : number;
}

// The order that was clicked for: what is fetched again comes in the server's.
let order = null;
function sort(column, direction) {
  order = [column, direction];
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [value(row, column), row]);
  const known = (one) => one !== '-' && one !== '';
  rows.sort(([a], [b]) => {
    if (known(a) !== known(b)) return known(a) ? -1 : 1;
    if (typeof a === 'number' && typeof b === 'number') return (a - b) * direction;
    return String(a).localeCompare(String(b), undefined, { numeric: true }) * direction;
  });
  body.append(...rows.map(([, row]) => row));
  for (const head of table.tHead.rows[0].cells) head.removeAttribute('aria-sort');
  const word = direction > 0 ? 'ascending' : 'descending';
  table.tHead.rows[0].cells[column].setAttribute('aria-sort', word);
}

if (table) {
  for (const link of table.tHead.querySelectorAll('a')) {
    link.addEventListener('click', (event) => {
      // The rows that are not here come from the server, in the order that is asked for.
      if (!('whole' in table.dataset)) return;
      event.preventDefault();
      const head = link.closest('th');
      const was = head.getAttribute('aria-sort');
      const isText = head.classList.contains('label');
      const first = isText ? 1 : -1;
      sort(head.cellIndex, was === null ? first : was === 'ascending' ? -1 : 1);
      const address = new URL(location.href);
      address.searchParams.set('sort', link.dataset.sort);
      history.replaceState(null, '', address);
    });
  }
}

// Filtering by name or class.
const filter = document.querySelector('#filter');
const unsifted = document.querySelector('#shown')?.textContent;
function sift() {
  if (!table || !filter) return;
  const text = filter.value.trim().toLowerCase();
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    row.hidden = text !== '' && !row.dataset.names.includes(text);
    if (!row.hidden) shown += 1;
  }
  const all = `${shown} of ${table.tBodies[0].rows.length}`;
  document.querySelector('#shown').textContent = text === '' ? unsifted : all;
}
if (filter) {
  filter.addEventListener('input', sift);
  // A page that came filtered has no other rows: the server is asked for them.
  const isWhole = filter.defaultValue === '' && 'whole' in table.dataset;
  filter.form.addEventListener('submit', (event) => { if (isWhole) event.preventDefault(); });
}

// From a point of a chart to its minute.
function point(figure) {
  const picture = figure.querySelector('svg');
  const { from, to, step, place, keep } = figure.dataset;
  const moment = (event) => {
    const box = picture.getBoundingClientRect();
    const { paddingLeft, paddingRight } = getComputedStyle(picture);
    const [left, right] = [paddingLeft, paddingRight].map(Number.parseFloat);
    const share = (event.clientX - box.left - left) / (box.width - left - right);
    if (share < 0 || share > 1) return null;
    const after = Math.floor((share * (Number(to) - Number(from))) / Number(step));
    return Number(from) + after * Number(step);
  };
  const text = (ms) => new Date(ms).toISOString().replace('.000', '');
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
  line.setAttribute('class', 'cross');
  line.setAttribute('y1', '10');
  line.setAttribute('y2', '214');
  picture.append(line);
  picture.addEventListener('pointermove', (event) => {
    const at = moment(event);
    line.toggleAttribute('hidden', at === null);
    if (at === null) return;
    const share = (at + Number(step) / 2 - Number(from)) / (Number(to) - Number(from));
    const x = `${100 * Math.min(share, 1)}%`;
    line.setAttribute('x1', x);
    line.setAttribute('x2', x);
  });
  picture.addEventListener('click', (event) => {
    const at = moment(event);
    if (at === null) return;
    location.href = `${place}?from=${text(at)}&to=${text(at + Number(step))}${keep}`;
  });
}

function wire() {
  find();
  sift();
  if (table && order) sort(...order);
  for (const figure of document.querySelectorAll('figure.chart:not([data-wired])')) {
    figure.dataset.wired = '';
    point(figure);
  }
}
wire();

// Lines and charts have a point a minute, and guests come and go: those parts are fetched again,
// but not what somebody reads or types in just now.
async function refresh() {
  const answer = await fetch(location.href);
  if (!answer.ok) throw new Error(answer.status);
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  // Counted now: what replaces a part leaves the page that it came with.
  const count = page.querySelectorAll('[data-fresh]').length;
  for (const part of document.querySelectorAll('[data-fresh]')) {
    const isInUse = part.contains(document.activeElement) || part.querySelector('details[open]');
    const fresh = page.getElementById(part.id);
    if (fresh && !isInUse) part.replaceWith(fresh);
  }
  wire();
  renew();
  return count;
}
// What was fetched is of another moment than what was sent: all of it is sent again.
let renew = () => {};

// Pages that nothing is sent to are fetched again while somebody looks.
const again = document.querySelector('[data-again]');
if (again) {
  const stale = document.querySelector('#stale');
  const parts = () => document.querySelectorAll('[data-fresh]').length;
  const look = async () => {
    const before = parts();
    try {
      if (!document.hidden) {
        const other = await refresh();
        // Something came or went that has a part of its own.
        if (other !== before) location.reload();
        stale.hidden = true;
      }
    } catch {
      stale.hidden = false;
    }
    // The next one waits for this one: a server that is slow is not asked twice.
    setTimeout(look, Number(again.dataset.again) * 1000);
  };
  setTimeout(look, Number(again.dataset.again) * 1000);
}

// What is now, once a second.
const live = document.querySelector('[data-events]');
if (live) {
  const state = document.querySelector('#state');
  const pause = document.querySelector('#pause');
  let source = null;
  let began = Date.now();
  const tell = (text) => { if (state.textContent !== text) state.textContent = text; };

  const trouble = document.querySelector('#trouble');
  const take = (event) => {
    const news = JSON.parse(event.data);
    const isBack = !trouble.hidden && !news.trouble;
    trouble.hidden = !news.trouble;
    trouble.querySelector('span').textContent = news.trouble ?? '';
    tell(news.trouble ? 'Not live' : 'Live');
    if (isBack) refresh().catch(() => {});
    if (news.at) document.querySelector('#at').textContent = news.at;
    for (const [name, text] of Object.entries(news.now ?? {})) {
      const cell = cells.get(name);
      if (cell) cell.textContent = text;
    }
    for (const [key, changes] of Object.entries(news.rows ?? {})) {
      for (const [name, text] of Object.entries(changes)) {
        const cell = rows.get(key)?.querySelector(`[data-c="${name}"]`);
        if (cell) cell.textContent = text;
      }
    }
    if (news.changed || Date.now() - began > 60000) {
      began = Date.now();
      refresh().catch(() => {});
    }
  };
  const start = () => {
    source = new EventSource(live.dataset.events);
    source.addEventListener('message', take);
    source.addEventListener('error', () => {
      if (source?.readyState !== EventSource.CLOSED) {
        tell('Not connected: trying again');
        return;
      }
      // The browser does not try again by itself where it was refused.
      tell('Session ended: open the address that pinhead web printed last');
      stop();
      later = setTimeout(start, 30000);
    });
  };
  let later = 0;
  const stop = () => { clearTimeout(later); source?.close(); source = null; };
  renew = () => { if (source) { stop(); start(); } };
  let isHeld = false;
  pause.hidden = false;
  pause.addEventListener('click', () => {
    isHeld = !isHeld;
    if (isHeld) stop(); else start();
    pause.textContent = isHeld ? 'Go on' : 'Hold';
    tell(isHeld ? 'Held' : 'Live');
  });
  // Who does not look is not kept up to date.
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) stop(); else if (!source && !isHeld) start();
  });
  start();
}
