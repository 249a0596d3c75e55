// Starting work, what was spent, and the devices that may use this server.
import { useEffect, useState } from './vendor/hooks.module.js';
import { html, money, Problem, useDoing } from './parts.js';
import { get, post } from './net.js';
import { texts } from './texts.js';

/** @param {{label: string, value: any, onValue: (value: string) => void, rows?: number}} props */
const Field = ({ label, value, onValue, rows }) => html`<label>${label}
  ${rows ? html`<textarea rows=${rows} value=${value} onInput=${(event) => onValue(event.currentTarget.value)} />`
    : html`<input value=${value} onInput=${(event) => onValue(event.currentTarget.value)} />`}</label>`;

/** @param {{rows: any[]}} props */
export function StartView({ rows }) {
  const [given, setGiven] = useState({ workspace: rows[0] ? rows[0].workspace : '', text: '', model: '', mode: '', cap: '', check: '' });
  const [isGoal, setGoal] = useState(false);
  const { error, isBusy, run } = useDoing();
  const set = (name) => (value) => setGiven({ ...given, [name]: value });
  const begin = () => run(async () => {
    const body = { text: given.text, workspace: given.workspace, model: given.model, mode: given.mode,
      ...(given.cap ? { max_cost_usd: Number(given.cap) } : {}),
      ...(isGoal && given.check ? { checks: [given.check] } : {}) };
    const started = await post(isGoal ? '/goals' : '/sessions', body);
    location.hash = `#/s/${started.session}`;
  });
  return html`<main><h1>${texts.start}</h1>
    <form onSubmit=${(event) => { event.preventDefault(); begin(); }}>
      <${Field} label=${texts.task} rows=${4} value=${given.text} onValue=${set('text')} />
      <${Field} label=${texts.folder} value=${given.workspace} onValue=${set('workspace')} />
      <${Field} label=${texts.model} value=${given.model} onValue=${set('model')} />
      <label>${texts.mode}<select value=${given.mode} onChange=${(event) => set('mode')(event.currentTarget.value)}>
        ${['', 'plan', 'ask', 'edits', 'auto'].map((mode) => html`<option key=${mode} value=${mode}>${mode || '–'}</option>`)}
      </select></label>
      <${Field} label=${texts.cap} value=${given.cap} onValue=${set('cap')} />
      <label class="inline"><input type="checkbox" checked=${isGoal}
        onChange=${(event) => setGoal(event.currentTarget.checked)} /> ${texts.isGoal}</label>
      ${isGoal && html`<${Field} label=${texts.check} value=${given.check} onValue=${set('check')} />`}
      <button class="main" disabled=${isBusy || !given.text.trim() || !given.workspace}>${texts.begin}</button>
      <${Problem} error=${error} />
    </form></main>`;
}

export function CostView() {
  const [by, setBy] = useState('day');
  const [costs, setCosts] = useState(/** @type {any} */ (null));
  const { error, run } = useDoing();
  useEffect(() => { run(async () => setCosts(await get(`/cost?by=${by}`))); }, [by]);
  return html`<main><h1>${texts.cost}</h1>
    <div class="tabs" role="group">${['day', 'model', 'source', 'session'].map((name) => html`
      <button key=${name} aria-pressed=${by === name} onClick=${() => setBy(name)}>${texts.by} ${name}</button>`)}</div>
    <${Problem} error=${error} />
    ${costs && !costs.rows.length && html`<p class="quiet">${texts.none}</p>`}
    ${costs && costs.rows.length > 0 && html`<div class="scroll" tabindex="0"><table>
      <thead><tr><th scope="col">${by}</th><th scope="col" class="figure">US$</th>
        <th scope="col" class="figure">${texts.tokensWord}</th><th scope="col" class="figure">${texts.requests}</th></tr></thead>
      <tbody>${[...costs.rows, { key: texts.total, spent: costs.total }].map((row) => html`<tr key=${row.key}>
        <th scope="row">${row.key}</th><td class="figure">${money(row.spent.usd || 0)}</td>
        <td class="figure">${((row.spent.input_tokens || 0) + (row.spent.output_tokens || 0)).toLocaleString('en')}</td>
        <td class="figure">${row.spent.requests || 0}</td></tr>`)}</tbody>
    </table></div>`}</main>`;
}

/** @param {{me: any, onLeave: () => void}} props */
export function DevicesView({ me, onLeave }) {
  const [devices, setDevices] = useState(/** @type {any[]} */ ([]));
  const [role, setRole] = useState('steer');
  const [link, setLink] = useState('');
  const { error, run } = useDoing();
  const load = () => run(async () => setDevices(await get('/devices')));
  useEffect(() => { if (me.role === 'owner') load(); }, []);
  const offer = () => run(async () => {
    const made = await post('/devices/offer', { role });
    setLink(`${location.origin}/#pair=${made.code}`);
  });
  return html`<main><h1>${texts.devices}</h1>
    <p class="quiet">${me.name} · ${me.role} · mainspring ${me.version}</p>
    ${me.role === 'owner' && html`
      ${!devices.length && html`<p class="quiet">${texts.noDevices}</p>`}
      <ul class="cards">${devices.map((device) => html`<li class="card" key=${device.id}>
        <span class="head"><b>${device.name}</b> <span class="quiet">${device.role}</span>
        <button class="danger" onClick=${() => run(async () => { await post('/devices/revoke', { name: device.id }); await load(); })}>
          ${texts.revoke}</button></span></li>`)}</ul>
      <div class="bar"><label class="inline">${texts.role} <select value=${role}
        onChange=${(event) => setRole(event.currentTarget.value)}>
        ${['watch', 'answer', 'steer'].map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select></label>
        <button class="main" onClick=${offer}>${texts.pair}</button></div>
      ${link && html`<p>${texts.pairLink}</p><pre tabindex="0">${link}</pre>`}`}
    <${Problem} error=${error} />
    <p><button onClick=${() => run(async () => { await post('/logout'); onLeave(); })}>${texts.leave}</button></p></main>`;
}
