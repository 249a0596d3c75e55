// Sessions that belong together: a session, the agents that work for it, and its forks, as a tree.
import { Chip, html, money } from './parts.js';
import { stateOf, toneOf } from './fleet.js';
import { texts } from './texts.js';

/** @param {Map<string, any>} rows @returns {Map<string, any[]>} */
export function childrenOf(rows) {
  const found = new Map();
  for (const row of rows.values()) {
    if (row.parent && rows.has(row.parent)) found.set(row.parent, [...(found.get(row.parent) || []), row]);
  }
  return found;
}

/** @param {{row: any, here: string, children: Map<string, any[]>, seen: Set<string>}} props */
function Member({ row, here, children, seen }) {
  if (seen.has(row.id)) return null;
  const inner = new Set(seen).add(row.id);
  const below = [...(children.get(row.id) || [])].sort((one, other) => one.started_us - other.started_us);
  const name = row.goal || row.title || row.id;
  return html`<li><a class="member" href=${`#/s/${row.id}`} aria-current=${row.id === here ? 'page' : null}>
      ${row.parent && html`<b>${row.agent || texts.forked}</b>`}<span class="line">${name.slice(0, 120)}</span>
      <${Chip} tone=${toneOf(stateOf(row))}>${stateOf(row)}<//><span class="quiet">${money(row.cost_usd)}</span></a>
    ${below.length > 0 && html`<ul>${below.map((child) => html`<${Member} key=${child.id} row=${child} here=${here} children=${children} seen=${inner} />`)}</ul>`}</li>`;
}

/** Nothing for a session that is alone. @param {{session: string, rows: Map<string, any>}} props */
export function Family({ session, rows }) {
  const children = childrenOf(rows);
  let root = rows.get(session);
  for (const seen = new Set(); root && root.parent && rows.has(root.parent) && !seen.has(root.id); root = rows.get(root.parent)) seen.add(root.id);
  if (!root || !(children.get(root.id) || []).length) return null;
  const count = (row) => (children.get(row.id) || []).reduce((sum, child) => sum + 1 + (child.id === row.id ? 0 : count(child)), 0);
  return html`<details class="family" open=${count(root) < 8}><summary>${texts.family} · ${count(root)}</summary>
    <ul class="tree"><${Member} row=${root} here=${session} children=${children} seen=${new Set()} /></ul></details>`;
}
