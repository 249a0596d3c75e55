// Starting work, what was spent, and the devices that may use this server.
import { useEffect, useState } from './vendor/hooks.module.js';
import { Choice, Empty, html, money, Problem, useData, useDoing } from './parts.js';
import { Bar, Days } from './charts.js';
import { get, post } from './net.js';
import { texts } from './texts.js';

/** @param {{label: string, help?: string, value: any, onValue: (value: string) => void, rows?: number, kind?: string, list?: string[]}} props */
const Field = ({ label, help, value, onValue, rows, kind, list }) => html`<label>${label}
  ${rows ? html`<textarea rows=${rows} value=${value} onInput=${(event) => onValue(event.currentTarget.value)} />`
    : html`<input value=${value} inputmode=${kind || 'text'} list=${list ? `list-${label}` : null} onInput=${(event) => onValue(event.currentTarget.value)} />`}
  ${list && html`<datalist id=${`list-${label}`}>${list.map((each) => html`<option key=${each} value=${each} />`)}</datalist>`}
  ${help && html`<span class="help">${help}</span>`}</label>`;

/** @param {{rows: any[]}} props */
export function StartView({ rows }) {
  const folders = [...new Set(rows.map((row) => row.workspace))].slice(0, 20);
  const [given, setGiven] = useState({ workspace: folders[0] || '', text: '', model: '', mode: '', cap: '', check: '', profile: '', most: '', tell: '', isBranch: false });
  const [kind, setKind] = useState('kindSession');
  const isGoal = kind === 'kindGoal';
  const { data: profiles } = useData(isGoal ? '/profiles' : '');
  const { data: channels } = useData('/channels');
  const { data: models } = useData('/models');
  const { error, isBusy, run } = useDoing();
  const set = (name) => (value) => setGiven((before) => ({ ...before, [name]: value }));
  const begin = () => run(async () => {
    const body = { text: given.text, workspace: given.workspace, model: given.model, mode: given.mode,
      ...(given.cap ? { max_cost_usd: Number(given.cap) } : {}), ...(given.tell ? { notify: [given.tell] } : {}),
      ...(!isGoal && given.isBranch ? { branch: true } : {}),
      ...(isGoal ? { profile: given.profile, checks: given.check ? [given.check] : [], ...(given.most ? { max_iterations: Number(given.most) } : {}) } : {}) };
    const started = await post(isGoal ? '/goals' : '/sessions', body);
    location.hash = `#/s/${started.session}${isGoal ? '/goal' : ''}`;
  });
  const select = (label, name, options) => html`<label>${label}<select value=${given[name]} onChange=${(event) => set(name)(event.currentTarget.value)}>
    ${options.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}</select></label>`;
  return html`<main class="form"><h1>${texts.start}</h1>
    <form onSubmit=${(event) => { event.preventDefault(); begin(); }}>
      <${Choice} names=${['kindSession', 'kindGoal']} value=${kind} onValue=${setKind} label=${texts.start} />
      <p class="quiet">${isGoal ? texts.kindHelp.goal : texts.kindHelp.session}</p>
      <${Field} label=${texts.task} rows=${5} value=${given.text} onValue=${set('text')} />
      <${Field} label=${texts.folder} help=${texts.folderHelp} list=${folders} value=${given.workspace} onValue=${set('workspace')} />
      ${isGoal && html`<${Field} label=${texts.check} help=${texts.checkHelp} value=${given.check} onValue=${set('check')} />`}
      <div class="fields">
        <${Field} label=${texts.model} help=${texts.modelHelp} list=${(models || []).slice(0, 300)} value=${given.model} onValue=${set('model')} />
        ${select(texts.mode, 'mode', [['', texts.modeDefault], ...Object.entries(texts.modes)])}
        <${Field} label=${texts.cap} kind="decimal" value=${given.cap} onValue=${set('cap')} />
        ${isGoal && html`<${Field} label=${texts.iterationsMost} kind="numeric" value=${given.most} onValue=${set('most')} />
          ${select(texts.profile, 'profile', [['', '–'], ...(profiles || []).map((name) => [name, name])])}`}
        ${channels && channels.length > 0 && select(texts.tell, 'tell', [['', texts.tellUsual], ...channels.map((each) => [each.name, each.name])])}
      </div>
      ${!isGoal && html`<label class="inline"><input type="checkbox" checked=${given.isBranch} onChange=${(event) => setGiven({ ...given, isBranch: event.currentTarget.checked })} /> ${texts.onBranch}</label>`}
      <${Problem} error=${error} />
      <button class="main wide" disabled=${isBusy || !given.text.trim() || !given.workspace}>${texts.begin}</button>
    </form></main>`;
}

/** @param {{rows: Map<string, any>}} props */
export function CostView({ rows }) {
  const [by, setBy] = useState('day');
  const { data: costs, error } = useData(`/cost?by=${by}`);
  const most = costs ? Math.max(...costs.rows.map((row) => row.spent.usd || 0), 0) : 0;
  const nameOf = (key) => { const row = by === 'session' && rows.get(key); return row ? row.goal || row.title || key : key; };
  const tokens = (spent) => ((spent.input_tokens || 0) + (spent.output_tokens || 0)).toLocaleString('en');
  return html`<main><h1>${texts.cost}</h1>
    <div class="bar"><${Choice} names=${['day', 'model', 'source', 'session']} value=${by} onValue=${setBy} label=${texts.by} labels=${texts.costBy} /></div>
    <${Problem} error=${error} />
    ${costs && !costs.rows.length && html`<${Empty} title=${texts.none} help=${texts.noneHelp} />`}
    ${costs && costs.rows.length > 0 && html`
      <section class="tiles"><div class="tile"><span class="quiet">${texts.total}</span><b>${money(costs.total.usd || 0)}</b></div>
        <div class="tile"><span class="quiet">${texts.tokensWord}</span><b>${tokens(costs.total)}</b></div>
        <div class="tile"><span class="quiet">${texts.requests}</span><b>${(costs.total.requests || 0).toLocaleString('en')}</b></div></section>
      ${by === 'day' && most > 0 && costs.rows.length > 1 && html`<figure class="card"><${Days} label=${texts.cost} rows=${costs.rows.map((row) => ({ key: row.key, value: row.spent.usd || 0 }))} /></figure>`}
      <div class="scroll" tabindex="0"><table class="wide"><thead><tr><th scope="col">${texts.costBy[by]}</th><th scope="col" class="figure">US$</th>
        <th scope="col" class="figure">${texts.tokensWord}</th><th scope="col" class="figure">${texts.requests}</th></tr></thead>
      <tbody>${costs.rows.map((row) => html`<tr key=${row.key}>
        <th scope="row" class=${by === 'day' ? 'whole' : ''}>${by === 'session' ? html`<a href=${`#/s/${row.key}`}>${nameOf(row.key).slice(0, 80)}</a>` : row.key}
          ${most > 0 && html`<${Bar} share=${(row.spent.usd || 0) / most} />`}</th>
        <td class="figure">${money(row.spent.usd || 0)}</td><td class="figure">${tokens(row.spent)}</td>
        <td class="figure">${(row.spent.requests || 0).toLocaleString('en')}</td></tr>`)}</tbody></table></div>`}</main>`;
}

/** A code that a phone reads. @param {{rows: string[]}} props */
function Squares({ rows }) {
  const path = rows.flatMap((row, down) => [...row].map((cell, across) => (cell === '1' ? `M${across + 4} ${down + 4}h1v1h-1z` : ''))).join('');
  return html`<svg class="qr" viewBox=${`0 0 ${rows.length + 8} ${rows.length + 8}`} role="img" aria-label=${texts.qr}><path d=${path} /></svg>`;
}

/** @param {{me: any, onLeave: () => void}} props */
export function DevicesView({ me, onLeave }) {
  const [devices, setDevices] = useState(/** @type {any[]} */ ([]));
  const [role, setRole] = useState('steer');
  const [offer, setOffer] = useState(/** @type {any} */ (null));
  const isHere = /^(127\.0\.0\.1|localhost|\[::1\])$/.test(location.hostname);
  const { error, run } = useDoing();
  const load = () => run(async () => setDevices(await get('/devices')));
  useEffect(() => { if (me.role === 'owner') load(); }, []);
  const pair = () => run(async () => {
    setOffer(await post('/devices/offer', { role, address: location.origin }));
  });
  return html`<section>
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
        <button class="main" onClick=${pair}>${texts.pair}</button></div>
      ${offer && html`<div class="card"><p>${texts.pairLink}</p><${Squares} rows=${offer.squares} /><pre tabindex="0">${`${location.origin}/#pair=${offer.code}`}</pre>
        ${offer.fingerprint && html`<p>${texts.fingerprint} <code>${offer.fingerprint}</code></p>`}${isHere && html`<p class="quiet">${texts.onlyHere}</p>`}</div>`}`}
    <${Problem} error=${error} />
    <p><button onClick=${() => run(async () => { await post('/logout'); onLeave(); })}>${texts.leave}</button></p></section>`;
}
