// All sessions and goals of this machine.
import { useState } from './vendor/hooks.module.js';
import { ago, html, money } from './parts.js';
import { texts } from './texts.js';

const GROUPS = {
  all: () => true,
  running: (row) => row.state === 'running' || row.goal_state === 'running',
  waiting: (row, asking) => asking.has(row.id),
  ended: (row) => row.state !== 'running' && row.goal_state !== 'running',
};
const SHOWN = 200;

/** @param {any} row */
export const stateOf = (row) => (row.goal ? row.goal_state + (row.grade ? `, ${row.grade}` : '') : row.state);

/** @param {string} state */
export const toneOf = (state) =>
  /done/.test(state) ? 'good' : /fail|crash|damag/.test(state) ? 'bad' : /run/.test(state) ? 'live' : 'doubt';

/** @param {{rows: any[], questions: any[]}} props */
export function FleetView({ rows, questions }) {
  const [group, setGroup] = useState('all');
  const [words, setWords] = useState('');
  const asking = new Set(questions.map((each) => each.session));
  const wanted = words.toLowerCase();
  const found = rows.filter((row) => GROUPS[group](row, asking)
    && `${row.id} ${row.title} ${row.goal} ${row.workspace} ${row.last_line}`.toLowerCase().includes(wanted));
  return html`<main>
    <div class="bar">
      <input type="search" aria-label=${texts.search} placeholder=${texts.search} value=${words}
        onInput=${(event) => setWords(event.currentTarget.value)} />
      <div class="tabs" role="group">${Object.keys(GROUPS).map((name) => html`
        <button key=${name} aria-pressed=${group === name} onClick=${() => setGroup(name)}>${texts[name]}</button>`)}
      </div>
    </div>
    ${!rows.length && html`<p class="quiet">${texts.noSessions}</p>`}
    ${rows.length > 0 && !found.length && html`<p class="quiet">${texts.noMatch}</p>`}
    <ul class="cards">${found.slice(0, SHOWN).map((row) => html`<li key=${row.id}>
      <a class="card" href=${`#/s/${row.id}`}>
        <span class="head"><b>${row.goal || row.title || row.id}</b>
          <span class=${`state ${toneOf(stateOf(row))}`}>${stateOf(row)}</span></span>
        <span class="line">${row.last_line}</span>
        <span class="quiet">${row.workspace} · ${ago(row.updated_us)} · ${money(row.cost_usd)}
          ${asking.has(row.id) ? html` · <b class="ask">${texts.waiting}</b>` : ''}</span>
      </a></li>`)}
    </ul>
  </main>`;
}
