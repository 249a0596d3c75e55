// What stands on this machine: approvals that hold from now on, and goals that begin by themselves.
import { useState } from './vendor/hooks.module.js';
import { Chip, clock, Empty, html, money, Problem, useData, useDoing } from './parts.js';
import { post } from './net.js';
import { texts } from './texts.js';

/** @param {{maySteer: boolean}} props */
export function Approvals({ maySteer }) {
  const [count, setCount] = useState(0);
  const { data, error } = useData('/approvals', count);
  const doing = useDoing();
  const revoke = (id) => doing.run(async () => { await post('/approvals/revoke', { id }); setCount(count + 1); });
  return html`<section><p class="quiet">${texts.approvalsHelp}</p><${Problem} error=${error || doing.error} />
    ${data && !data.length && html`<${Empty} title=${texts.noApprovals} help=${texts.noApprovalsHelp} />`}
    <ul class="cards">${(data || []).map((grant) => html`<li class="card" key=${grant.id}><span class="head"><code>${grant.command || grant.path || grant.host || grant.tool}</code>
      <${Chip} tone=${grant.scope === 'forever' ? 'doubt' : ''}>${texts.scopes[grant.scope] || grant.scope}<//></span>
      <span class="quiet">${grant.tool} · ${grant.session || grant.workspace || texts.scopes.forever}${grant.given_us ? ` · ${clock(grant.given_us)}` : ''}
        ${grant.expires_us ? ` · ${texts.until} ${clock(grant.expires_us)}` : ''} · ${grant.by || texts.user}</span>
      ${maySteer && html`<div class="actions"><button class="danger" disabled=${doing.isBusy} onClick=${() => revoke(grant.id)}>${texts.askAgain}</button></div>`}</li>`)}</ul></section>`;
}

/** @param {{maySteer: boolean}} props */
export function Schedules({ maySteer }) {
  const [count, setCount] = useState(0);
  const { data, error } = useData('/schedules', count);
  const { data: daemon } = useData('/daemon');
  const doing = useDoing();
  const forget = (id) => doing.run(async () => { await post('/schedules/forget', { id }); setCount(count + 1); });
  const begin = (id) => doing.run(async () => { location.hash = `#/s/${(await post('/schedules/begin', { id })).session}/goal`; });
  return html`<section><p class="quiet">${texts.schedulesHelp}</p><${Problem} error=${error || doing.error} />
    ${daemon && !daemon.owner && (data || []).some(({ schedule }) => !schedule.queue) && html`<p class="problem">${texts.noDaemon}</p>`}
    ${data && !data.length && html`<${Empty} title=${texts.noSchedules} help=${texts.noSchedulesHelp} />`}
    <ul class="cards">${(data || []).map(({ schedule, next_us: next, last, last_state: state }) => html`<li class="card" key=${schedule.id}>
      <span class="head"><b class="title">${schedule.goal}</b><code class="whole">${schedule.cron}</code></span>
      <span class="meta"><span>${next ? `${texts.next} ${clock(next)}` : texts.never}</span><span class="path">${schedule.folder}</span>
        ${schedule.queue && html`<span>${texts.ofQueue} ${schedule.queue}</span>`}
        ${schedule.max_cost_usd && html`<span>${texts.atMost} ${money(schedule.max_cost_usd)}</span>`}
        ${last && html`<span>${texts.last} ${clock(last.at_us)}: ${last.session ? html`<a href=${`#/s/${last.session}/goal`}>${state || last.outcome}</a>` : last.outcome}${last.detail ? ` (${last.detail})` : ''}</span>`}</span>
      ${maySteer && html`<div class="actions"><button disabled=${doing.isBusy} onClick=${() => begin(schedule.id)}>${texts.beginNow}</button>
        <button class="danger" disabled=${doing.isBusy} onClick=${() => forget(schedule.id)}>${texts.forget}</button></div>`}</li>`)}</ul></section>`;
}
