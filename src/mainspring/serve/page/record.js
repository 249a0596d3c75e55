// What a session's record is worth beside others: whether it is whole, how it compares, what its changes reach.
import { useState } from './vendor/hooks.module.js';
import { Chip, Empty, html, money, Problem, useData, useDoing } from './parts.js';
import { get } from './net.js';
import { texts } from './texts.js';

const MOST = 200;
const SEMVER_TONES = { patch: 'good', minor: 'doubt', major: 'bad' };

/** @param {{session: string}} props */
function Verified({ session }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  const { error, isBusy, run } = useDoing();
  const look = () => run(async () => setFound(await get(`/sessions/${session}/verify`)));
  return html`<h2>${texts.verify}</h2><p class="quiet">${texts.verifyHelp}</p>
    <div class="actions"><button disabled=${isBusy} onClick=${look}>${texts.verifyNow}</button></div><${Problem} error=${error} />
    ${found && html`<div class="card" role="status"><p class=${`verdict ${found.problem ? 'bad' : 'good'}`}>${found.problem || texts.isWhole}</p>
      <p class="meta"><span>${found.events.toLocaleString('en')} ${texts.events}</span><span>${found.blobs.toLocaleString('en')} ${texts.contents(found.blobs)}</span><code class="path">${found.head}</code></p></div>`}`;
}

/** @param {{side: any, name: string}} props */
const Side = ({ side, name }) => html`<div class="card"><span class="head"><a class="title" href=${`#/s/${side.session}`}>${name}</a><${Chip}>${side.ending || texts.noEnding}<//></span>
  <span class="meta"><span>${side.events.length.toLocaleString('en')} ${texts.eventsAfter}</span><span>${side.steps} ${texts.steps(side.steps)}</span><span>${side.tokens.toLocaleString('en')} ${texts.tokensWord.toLowerCase()}</span>
    <span>${money(side.usd)}</span>${side.models.map((model) => html`<span key=${model}>${model}</span>`)}
    ${Object.entries(side.outcomes).map(([outcome, count]) => html`<span key=${outcome} class=${outcome === 'ok' ? '' : 'bad'}>${count} ${outcome}</span>`)}</span>
  ${side.files.length > 0 && html`<p class="quiet">${side.files.slice(0, MOST).join(', ')}</p>`}${side.said && html`<p>${side.said.slice(0, 2000)}</p>`}</div>`;

/** @param {{session: string, rows: Map<string, any>}} props */
function Compared({ session, rows }) {
  const row = rows.get(session);
  const [other, setOther] = useState(row && rows.has(row.parent) ? row.parent : '');
  const { data, error } = useData(other ? `/sessions/${session}/compare?other=${other}` : '');
  const others = [...rows.values()].filter((each) => each.id !== session).sort((one, two) => two.updated_us - one.updated_us).slice(0, MOST);
  const nameOf = (id) => { const found = rows.get(id); return (found && (found.goal || found.title)) || id; };
  return html`<h2>${texts.compareTitle}</h2>${!others.length && html`<p class="quiet">${texts.nothingToCompare}</p>`}
    ${others.length > 0 && html`<label>${texts.compareWith}<select value=${other} onChange=${(event) => setOther(event.currentTarget.value)}>
      <option value="">${texts.choose}</option>${others.map((each) => html`<option key=${each.id} value=${each.id}>${nameOf(each.id).slice(0, 80)} · ${each.id}</option>`)}</select></label>`}
    <${Problem} error=${error} />
    ${data && html`<p>${data.shared_events.toLocaleString('en')} ${texts.sharedEvents}</p><div class="grid">${data.sides.map((side) => html`<${Side} key=${side.session} side=${side} name=${nameOf(side.session)} />`)}</div>`}`;
}

/** @param {{title: string, items: any[], children: (item: any) => any}} props */
const Listed = ({ title, items, children }) => items.length > 0 && html`<h3>${title} · ${items.length}</h3><ul>${items.slice(0, MOST).map((item, place) => html`<li key=${place}>${children(item)}</li>`)}</ul>`;

/** @param {{row: any}} props */
function Reached({ row }) {
  const [since, setSince] = useState('');
  const [found, setFound] = useState(/** @type {any} */ (null));
  const { error, isBusy, run } = useDoing();
  const look = (event) => {
    event.preventDefault();
    run(async () => setFound(await get(`/impact?folder=${encodeURIComponent(row.workspace)}&since=${encodeURIComponent(since.trim())}`)));
  };
  return html`<h2>${texts.impact}</h2><p class="quiet">${texts.impactHelp}</p>
    <form class="bar" onSubmit=${look}><input type="search" aria-label=${texts.impactSince} placeholder=${texts.impactSince} value=${since} onInput=${(event) => setSince(event.currentTarget.value)} />
      <button disabled=${isBusy}>${isBusy ? texts.loading : texts.impactNow}</button></form><${Problem} error=${error} />
    ${found && !found.changed.length && html`<${Empty} title=${texts.noImpact} help=${texts.noImpactHelp} />`}
    ${found && found.changed.length > 0 && html`<div class="card"><p class="meta"><${Chip} tone=${SEMVER_TONES[found.semver]}>${found.semver}<//><span>${found.changed.length} ${texts.changedFiles}</span>
        <span>${found.reached} ${texts.reachedFiles}</span><span>${found.tests.length} ${texts.testsOfIt}</span></p>
      <${Listed} title=${texts.publicNames} items=${found.api}>${(change) => html`<code>${change.name}</code> ${change.change} <span class="quiet">${change.path}${change.line ? `:${change.line}` : ''} ${change.why}</span>`}<//>
      <${Listed} title=${texts.callers} items=${found.callers}>${(place) => html`<code>${place.path}:${place.line}</code> ${place.name} ${place.is_by_name ? html`<span class="quiet">${texts.byName}</span>` : ''}`}<//>
      <${Listed} title=${texts.testsToRun} items=${found.tests}>${(test) => html`<code>${test}</code>`}<//>
      <${Listed} title=${texts.notRead} items=${found.not_read}>${(line) => line}<//></div>`}`;
}

/** @param {{session: string, row: any, rows: Map<string, any>, maySteer: boolean}} props */
export const RecordTab = ({ session, row, rows, maySteer }) => html`<section><${Verified} session=${session} /><${Compared} session=${session} rows=${rows} />
  ${maySteer && row && html`<${Reached} row=${row} />`}</section>`;

/** Who can take turns on this machine, and whom a session can ask. */
export function AgentsView() {
  const { data: engines, error } = useData('/engines');
  const { data: agents, error: problem } = useData('/agents');
  return html`<section><h2>${texts.engines}</h2><p class="quiet">${texts.enginesHelp}</p><${Problem} error=${error} />${!engines && !error && html`<p class="quiet">${texts.loading}</p>`}
    <ul class="cards">${(engines || []).map((each) => html`<li class="card" key=${each.engine}><span class="head"><b>${each.engine}</b><${Chip} tone=${each.is_installed ? 'good' : ''}>${each.is_installed ? texts.ok : texts.missing}<//></span>
      <span class="meta"><span>${each.title}</span><span>${each.version}</span><span class="path">${each.path}</span></span>${each.remedy && html`<span>${each.remedy}</span>`}</li>`)}</ul>
    <h2>${texts.askable}</h2><p class="quiet">${texts.askableHelp}</p><${Problem} error=${problem} />
    <ul class="cards">${(agents || []).map((each) => html`<li class="card" key=${each.name}><span class="head"><b>${each.name}</b><${Chip}>${each.isolation || 'read-only'}<//></span>
      <span>${each.description}</span><span class="meta">${each.model && html`<span>${each.model}</span>`}<span class="path">${each.path}</span></span></li>`)}</ul></section>`;
}
