// This machine: devices, settings with where each comes from, and what works here.
import { useState } from './vendor/hooks.module.js';
import { Chip, Empty, html, Problem, Tabs, useData } from './parts.js';
import { DevicesView } from './forms.js';
import { PushChoice } from './push.js';
import { Approvals, Schedules } from './standing.js';
import { AgentsView } from './record.js';
import { WorkersView } from './workers.js';
import { texts } from './texts.js';

/** @param {any} value */
const valueOf = (value) => (value === null || value === '' ? texts.notSet : typeof value === 'string' ? value
  : typeof value === 'object' && !Object.keys(value).length ? texts.empty : JSON.stringify(value));

function Settings() {
  const { data, error } = useData('/settings');
  const [words, setWords] = useState('');
  const [isChanged, setChanged] = useState(false);
  const found = (data || []).filter((row) => row.key.includes(words.toLowerCase()) && (!isChanged || row.origin !== 'default'));
  return html`<section><p class="quiet">${texts.settingsHelp}</p>
    <div class="bar"><input type="search" aria-label=${texts.searchSettings} placeholder=${texts.searchSettings} value=${words}
      onInput=${(event) => setWords(event.currentTarget.value)} />
      <label class="inline"><input type="checkbox" checked=${isChanged} onChange=${(event) => setChanged(event.currentTarget.checked)} /> ${texts.onlyChanged}</label></div>
    <${Problem} error=${error} />
    ${data && !found.length && html`<${Empty} title=${texts.noSetting} help=${texts.otherWords} />`}
    <dl class="settings">${found.map((row) => html`<div key=${row.key}><dt><code>${row.key}</code></dt>
      <dd><span class="value">${valueOf(row.value)}</span>
        ${row.origin !== 'default' ? html`<${Chip} tone="live">${row.origin}<//> <span class="quiet">${row.source}</span>` : html`<span class="quiet">${row.origin}</span>`}</dd></div>`)}</dl></section>`;
}

function Doctor() {
  const { data, error } = useData('/doctor');
  if (!data) return error ? html`<${Problem} error=${error} />` : html`<p class="quiet">${texts.loading}</p>`;
  const isHealthy = data.rung && data.checks.every((check) => check.is_ok || !check.is_needed);
  return html`<section><p class=${`verdict ${isHealthy ? 'good' : 'bad'}`}>${isHealthy ? texts.healthy : texts.unhealthy} <span class="quiet">mainspring ${data.version}</span></p>
    <ul class="cards">${data.checks.map((check) => html`<li class="card" key=${check.name}><span class="head"><b>${check.name}</b>
      <${Chip} tone=${check.is_ok ? 'good' : check.is_needed ? 'bad' : 'doubt'}>${check.is_ok ? texts.ok : texts.missing}<//></span>
      ${check.found && html`<span class="quiet">${check.found}</span>`}
      ${!check.is_ok && check.remedy && html`<span>${check.remedy}</span>`}</li>`)}</ul>
    <h2>${texts.sandbox}</h2><ul class="cards">${data.rungs.map((rung) => html`<li class="card" key=${rung.name}><span class="head"><b>${rung.name}</b>
      <${Chip} tone=${rung.name === data.rung ? 'good' : ''}>${rung.name === data.rung ? texts.inUse : rung.is_available ? texts.ok : texts.missing}<//></span>
      ${rung.why_not && html`<span class="quiet">${rung.why_not}</span>`}</li>`)}</ul>
    ${data.keys.length > 0 && html`<h2>${texts.keys}</h2><p>${data.keys.join(', ')}</p>`}</section>`;
}

/** @param {{route: string, me: any, onLeave: () => void, isInstallable: boolean | null}} props */
export function MachineView({ route, me, onLeave, isInstallable }) {
  const items = /** @type {[string, string][]} */ ([['#/machine', texts.devices], ['#/machine/fleet', texts.fleet], ['#/machine/agents', texts.agentsTab], ['#/machine/approvals', texts.approvals], ['#/machine/schedules', texts.schedules], ['#/machine/settings', texts.settings], ['#/machine/doctor', texts.doctor]]);
  const maySteer = me.role === 'steer' || me.role === 'owner';
  return html`<main><h1>${texts.machine}</h1><${Tabs} items=${items} here=${route} label=${texts.machine} />
    ${route === '#/machine/agents' ? html`<${AgentsView} />` : route === '#/machine/fleet' ? html`<${WorkersView} me=${me} />` : route === '#/machine/approvals' ? html`<${Approvals} maySteer=${maySteer} />` : route === '#/machine/schedules' ? html`<${Schedules} maySteer=${maySteer} />`
      : route === '#/machine/settings' ? html`<${Settings} />` : route === '#/machine/doctor' ? html`<${Doctor} />`
      : html`<${DevicesView} me=${me} onLeave=${onLeave} /><${PushChoice} isInstallable=${isInstallable} me=${me} />
        ${isInstallable !== null && html`<p class="quiet">${isInstallable ? texts.installable : texts.plainPage}</p>`}`}</main>`;
}
