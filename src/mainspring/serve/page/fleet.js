// All sessions and goals of this machine.
import { useState } from './vendor/hooks.module.js';
import { ago, Chip, Empty, html, money } from './parts.js';
import { texts } from './texts.js';

const GROUPS = {
  all: () => true,
  running: (row) => row.state === 'running' || row.goal_state === 'running',
  waiting: (row, asking) => asking.has(row.id),
  ended: (row) => row.state !== 'running' && row.goal_state !== 'running',
};
const SHOWN = 200;

/** @param {any} row */
export const stateOf = (row) => (row.goal ? (texts.goalStates[row.goal_state] || row.goal_state) + (row.grade ? `, ${row.grade}` : '') : row.state);

/** @param {string} state */
export const toneOf = (state) =>
  /done/.test(state) ? 'good' : /fail|crash|damag/.test(state) ? 'bad' : /run/.test(state) ? 'live' : 'doubt';

/** Agents are shown with the session that they work for, unless they are looked for or need somebody.
 * @param {{rows: any[], all: Map<string, any>, questions: any[]}} props */
export function FleetView({ rows, all, questions }) {
  const [group, setGroup] = useState('all');
  const [words, setWords] = useState('');
  const [most, setMost] = useState(SHOWN);
  const asking = new Set(questions.map((each) => each.session));
  const wanted = words.toLowerCase();
  const agents = rows.reduce((counts, row) => (row.agent ? counts.set(row.parent, (counts.get(row.parent) || 0) + 1) : counts), new Map());
  const found = rows.filter((row) => GROUPS[group](row, asking) && (!row.agent || wanted || asking.has(row.id) || !all.has(row.parent))
    && `${row.id} ${row.title} ${row.goal} ${row.workspace} ${row.last_line}`.toLowerCase().includes(wanted));
  const counts = { waiting: rows.filter((row) => asking.has(row.id)).length, running: rows.filter(GROUPS.running).length };
  return html`<main>
    <h1 class="hidden">${texts.sessions}</h1>
    <div class="bar">
      <input type="search" aria-label=${texts.search} placeholder=${texts.search} value=${words}
        onInput=${(event) => setWords(event.currentTarget.value)} />
      <div class="choice" role="group" aria-label=${texts.sessions}>${Object.keys(GROUPS).map((name) => html`
        <button key=${name} aria-pressed=${group === name} onClick=${() => setGroup(name)}>${texts[name]}${counts[name] ? ` ${counts[name]}` : ''}</button>`)}
      </div>
    </div>
    ${!rows.length && html`<${Empty} title=${texts.noSessions} help=${texts.noSessionsHelp} />`}
    ${rows.length > 0 && !found.length && html`<${Empty} title=${texts.noMatch} help=${texts.noMatchHelp} />`}
    <ul class="cards">${found.slice(0, most).map((row) => html`<li key=${row.id}>
      <a class="card session-card" href=${`#/s/${row.id}${row.goal ? '/goal' : ''}`}>
        <span class="head"><b class="title">${row.goal || row.title || row.id}</b>
          ${asking.has(row.id) ? html`<${Chip} tone="ask">${texts.needsYou}<//>` : html`<${Chip} tone=${toneOf(stateOf(row))}>${stateOf(row)}<//>`}</span>
        ${row.last_line && row.last_line !== row.title && html`<span class="line">${row.last_line}</span>`}
        <span class="meta">${row.agent ? html`<span>${texts.agent} ${row.agent}</span>` : row.parent ? html`<span>${texts.forked}</span>` : ''}${agents.get(row.id) > 0 && html`<span>${agents.get(row.id)} ${texts.agents}</span>`}
          ${row.goal && html`<span>${texts.goal} · ${row.iterations} ${texts.iterations.toLowerCase()}</span>`}
          <span class="path">${row.workspace}</span><span>${ago(row.updated_us)} ${texts.ago}</span><span>${money(row.cost_usd)}</span></span>
      </a></li>`)}
    </ul>
    ${found.length > most && html`<button class="wide" onClick=${() => setMost(most + SHOWN)}>${texts.showMore} · ${(found.length - most).toLocaleString('en')} ${texts.notShown}</button>`}
  </main>`;
}
