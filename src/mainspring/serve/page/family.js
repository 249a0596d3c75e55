// Sessions that belong together: a session, the agents that work for it, and its forks, as a tree.
import { Chip, html, money, span, useData } from './parts.js';
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

const TASK_TONES = { done: 'good', failed: 'bad', blocked: 'doubt', running: 'live' };

/** @param {{rows: any[], above: string}} props */
function TaskLevel({ rows, above }) {
  const below = rows.filter((row) => row.above === above);
  if (!below.length) return null;
  return html`<ul class=${above ? '' : 'tree'}>${below.map((row) => html`<li key=${row.name}>
    <a class="member" href=${row.session ? `#/s/${row.session}` : null}><b>${row.name}</b>
      <span class="line">${row.why || row.text}</span><${Chip} tone=${TASK_TONES[row.state] || ''}>${row.state}<//>
      ${row.session && html`<span class="quiet">${span(row.duration_s)} · ${money(row.cost_usd)}</span>`}
      ${row.needs.length > 1 && html`<span class="quiet">${texts.needs} ${row.needs.join(', ')}</span>`}</a>
    <${TaskLevel} rows=${rows} above=${row.name} /></li>`)}</ul>`;
}

/** The graphs of tasks of a session that others work for. @param {{session: string, rows: Map<string, any>}} props */
export function Tasks({ session, rows }) {
  const below = childrenOf(rows).get(session) || [];
  const changed = below.map((row) => `${row.id} ${stateOf(row)}`).join(' ') + ((rows.get(session) || {}).state || '');
  const { data } = useData(below.length ? `/sessions/${session}/tasks` : '', changed);
  return (data || []).map((graph, place) => html`<details key=${place} class="family tasks" open>
    <summary>${texts.tasks} · ${graph.tasks.filter((row) => row.state === 'done').length}/${graph.tasks.length}</summary>
    <${TaskLevel} rows=${graph.tasks} above="" /></details>`);
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
