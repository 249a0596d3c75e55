// Small pieces that views share. Text becomes text: there is no innerHTML anywhere.
import { h } from './vendor/preact.module.js';
import { useEffect, useLayoutEffect, useRef, useState } from './vendor/hooks.module.js';
import htm from './vendor/htm.module.js';
import { get } from './net.js';
import { texts } from './texts.js';

export const html = htm.bind(h);

const TAGS = new Set(['p', 'ul', 'ol', 'li', 'blockquote', 'strong', 'em', 's', 'table', 'thead', 'tbody', 'tr', 'th',
  'td', 'code', 'pre', 'br', 'hr']);

/** A node of the tree that the server makes of Markdown. @param {any} node @returns {any} */
export function nodeOf(node) {
  if (typeof node === 'string') return node;
  const [name, attributes, children] = node;
  const inside = children.map(nodeOf);
  if (name === 'h') return h(`h${Math.min(6, attributes.level + 1)}`, null, inside);
  if (name === 'a') {
    return h('a', { href: attributes.href, rel: 'noopener noreferrer', target: '_blank', title: attributes.href },
      inside, h('span', { class: 'target' }, ` (${attributes.href.slice(0, 80)})`));
  }
  if (name === 'table') return h('div', { class: 'scroll', tabindex: 0 }, h('table', null, inside));
  if (name === 'pre') return h('pre', { tabindex: 0 }, h('code', null, inside));
  if (name === 'th' && !inside.some(Boolean)) return h('td');
  return TAGS.has(name) ? h(name, name === 'ol' ? { start: attributes.start } : null, inside) : inside;
}

/** @param {{tree: any[]}} props */
export const Markdown = ({ tree }) => html`<div class="md">${tree.map(nodeOf)}</div>`;

const ICONS = {
  sessions: 'M4 6h16M4 12h16M4 18h10', inbox: 'M4 13l3-8h10l3 8v6H4zM4 13h5l1 2h4l1-2h5', start: 'M12 5v14M5 12h14',
  artifacts: 'M5 3h9l5 5v13H5zM14 3v5h5M8 13h8M8 17h5', cost: 'M5 20V10M12 20V4M19 20v-7', machine: 'M4 5h16v11H4zM9 20h6M12 16v4',
};

/** @param {{name: string}} props */
export const Icon = ({ name }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;

/** @param {{title: string, help?: string}} props */
export const Empty = ({ title, help }) => html`<div class="empty"><p><b>${title}</b></p>${help && html`<p class="quiet">${help}</p>`}</div>`;

/** @param {{tone?: string, children?: any}} props */
export const Chip = ({ tone, children }) => html`<span class=${`chip ${tone || ''}`}>${children}</span>`;

/** The one that is open is always in sight. @param {{items: [string, string][], here: string, label: string}} props */
export function Tabs({ items, here, label }) {
  const nav = useRef(/** @type {any} */ (null));
  useLayoutEffect(() => {
    const open = nav.current && nav.current.querySelector('[aria-current]');
    if (open) nav.current.scrollLeft = open.offsetLeft - nav.current.offsetLeft - (nav.current.clientWidth - open.clientWidth) / 2;
  }, [here, items.length]);
  return html`<nav class="tabs" ref=${nav} aria-label=${label}>${items.map(([to, name]) => html`
    <a key=${to} href=${to} aria-current=${here === to ? 'page' : null}>${name}</a>`)}</nav>`;
}

/** @param {{names: string[], value: string, onValue: (name: string) => void, label: string, labels?: Record<string, string>}} props */
export const Choice = ({ names, value, onValue, label, labels = /** @type {any} */ (texts) }) => html`<div class="choice" role="group" aria-label=${label}>${names.map((name) => html`
  <button type="button" key=${name} aria-pressed=${value === name} onClick=${() => onValue(name)}>${labels[name] || name}</button>`)}</div>`;

/** Text that is opened when it is wanted. @param {{title: any, text: string, isCut?: boolean, class?: string, whole?: () => Promise<string>}} props */
export function Folded({ title, text, isCut, class: name, whole }) {
  const [isOpen, setOpen] = useState(false);
  const [all, setAll] = useState(/** @type {string | null} */ (null));
  const { error, isBusy, run } = useDoing();
  if (!text) return html`<div class=${name}>${title}</div>`;
  return html`<details class=${name} open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>${title}</summary>
    ${isOpen && html`<pre tabindex="0">${all === null ? text : all}</pre>
      ${isCut && whole && all === null && html`<button class="small" disabled=${isBusy}
        onClick=${() => run(async () => setAll(await whole()))}>${texts.wholeText}</button>`}
      <${Problem} error=${error} />`}
  </details>`;
}

/** @param {{error: any}} props */
export const Problem = ({ error }) =>
  error && html`<p class="problem" role="alert">${error.message} ${error.remedy || ''}</p>`;

/** @param {number} usd */
export const money = (usd) => (usd ? `$${usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2)}` : '$0');

/** @param {number} seconds */
export function span(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

/** @param {number} us */
export const ago = (us) => span(Math.max(0, Date.now() / 1000 - us / 1e6));

/** @param {number} us */
export const clock = (us) => new Date(us / 1000).toLocaleString('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });

/** Times in a text as this person's clock has them. @param {string} text */
export const localTimes = (text) => text.replace(/\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z/g, (found) => clock(Date.parse(found) * 1000));

/** @param {number} bytes */
export const size = (bytes) => (bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

/** Runs something that may fail, and keeps what went wrong. */
export function useDoing() {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [isBusy, setBusy] = useState(false);
  /** @param {() => Promise<any>} action */
  const run = async (action) => {
    setBusy(true);
    setError(null);
    try {
      return await action();
    } catch (problem) {
      setError(problem);
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  return { error, isBusy, run };
}

/** What a path answers, asked again when it or `version` changes; the newest question counts.
 * @param {string} path @param {any} [version] */
export function useData(path, version) {
  const [found, setFound] = useState(/** @type {{path: string, data: any, error: any}} */ ({ path: '', data: null, error: null }));
  useEffect(() => {
    let isGone = false;
    if (!path) return undefined;
    get(path).then((data) => !isGone && setFound({ path, data, error: null }),
      (error) => !isGone && setFound({ path, data: null, error }));
    return () => { isGone = true; };
  }, [path, version]);
  return { data: found.path === path ? found.data : null, error: found.path === path ? found.error : null };
}

/** The time, each second. */
export function useNow() {
  const [now, setNow] = useState(Date.now());
  useEffect(() => { const timer = setInterval(() => setNow(Date.now()), 1000); return () => clearInterval(timer); }, []);
  return now;
}
