// Small pieces that views share. Text becomes text: there is no innerHTML anywhere.
import { h } from './vendor/preact.module.js';
import { useState } from './vendor/hooks.module.js';
import htm from './vendor/htm.module.js';
import { texts } from './texts.js';

export const html = htm.bind(h);

const TAGS = new Set(['p', 'ul', 'ol', 'li', 'blockquote', 'strong', 'em', 's', 'table', 'thead', 'tbody', 'tr', 'th',
  'td', 'code', 'pre', 'br', 'hr']);

/** A node of the tree that the server makes of Markdown. @param {any} node @returns {any} */
export function nodeOf(node) {
  if (typeof node === 'string') return node;
  const [name, attributes, children] = node;
  const inside = children.map(nodeOf);
  if (name === 'h') return h(`h${Math.min(6, attributes.level + 2)}`, null, inside);
  if (name === 'a') {
    return h('a', { href: attributes.href, rel: 'noopener noreferrer', target: '_blank', title: attributes.href },
      inside, h('span', { class: 'target' }, ` (${attributes.href.slice(0, 80)})`));
  }
  if (name === 'table') return h('div', { class: 'scroll', tabindex: 0 }, h('table', null, inside));
  if (name === 'pre') return h('pre', { tabindex: 0 }, h('code', null, inside));
  return TAGS.has(name) ? h(name, name === 'ol' ? { start: attributes.start } : null, inside) : inside;
}

/** @param {{tree: any[]}} props */
export const Markdown = ({ tree }) => html`<div class="md">${tree.map(nodeOf)}</div>`;

/** Text that is opened when it is wanted. @param {{title: any, text: string, isCut?: boolean, class?: string}} props */
export function Folded({ title, text, isCut, class: name }) {
  const [isOpen, setOpen] = useState(false);
  if (!text) return html`<div class=${name}>${title}</div>`;
  return html`<details class=${name} open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>${title}</summary>
    ${isOpen && html`<pre tabindex="0">${text}</pre>${isCut && html`<p class="quiet">${texts.cut}</p>`}`}
  </details>`;
}

/** @param {{error: any}} props */
export const Problem = ({ error }) =>
  error && html`<p class="problem" role="alert">${error.message} ${error.remedy || ''}</p>`;

/** @param {number} usd */
export const money = (usd) => (usd ? `$${usd < 0.01 ? usd.toFixed(4) : usd.toFixed(2)}` : '$0');

/** @param {number} us */
export function ago(us) {
  const seconds = Math.max(0, Date.now() / 1000 - us / 1e6);
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return seconds < 86400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} d`;
}

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
