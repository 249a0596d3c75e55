// What became of a session's work: its git branch, what checks say of it, and attempts that are compared.
import { useState } from './vendor/hooks.module.js';
import { Chip, html, money, Problem, useData, useDoing } from './parts.js';
import { post } from './net.js';
import { texts } from './texts.js';

/** @param {{session: string, row: any, maySteer: boolean}} props */
export function Branch({ session, row, maySteer }) {
  const { data: moved } = useData(row ? `/sessions/${session}/branch` : '', row && row.events);
  const [isSure, setSure] = useState(false);
  const { error, isBusy, run } = useDoing();
  const land = (how) => run(() => post(`/sessions/${session}/land`, { how })).then(() => setSure(false));
  if (!moved) return error && html`<${Problem} error=${error} />`;
  return html`<section class="card branch"><span class="head"><b>${texts.branch} <code>${moved.branch}</code></b><${Chip}>${texts.notLanded}<//></span>
    <span class="quiet">${texts.lands} <code>${moved.base}</code>${(moved.left_out || []).length > 0 ? ` · ${texts.leftOut} ${moved.left_out.join(', ')}` : ''}</span>
    ${maySteer && !isSure && html`<div class="actions"><button class="main" disabled=${isBusy} onClick=${() => land('merge')}>${texts.merge}</button>
      <button disabled=${isBusy} onClick=${() => land('squash')}>${texts.squash}</button>
      <button class="danger" disabled=${isBusy} onClick=${() => setSure(true)}>${texts.discard}</button></div>`}
    ${isSure && html`<p>${texts.discardHelp}</p><div class="actions"><button class="danger" disabled=${isBusy} onClick=${() => land('discard')}>${texts.discardYes}</button>
      <button onClick=${() => setSure(false)}>${texts.cancel}</button></div>`}
    <${Problem} error=${error} /></section>`;
}

/** @param {{session: string, row: any}} props */
export function Checked({ session, row }) {
  const { data } = useData(row ? `/sessions/${session}/checks` : '', row && row.events);
  if (!data || !data.rounds) return null;
  const found = data.files.flatMap((file) => (file.findings || []).map((each) => ({ ...each, path: file.path })));
  return html`<details class="checked" open=${found.length > 0}><summary>${texts.checks} · ${found.length
    ? `${found.length} ${texts.findings(found.length)}` : `${data.files.length} ${texts.filesClean(data.files.length)}`}</summary>
    <ul class="cards">${found.slice(0, 100).map((each, place) => html`<li class="card" key=${place}><span class="head"><code>${each.path}${each.line ? `:${each.line}` : ''}</code>
      <${Chip} tone=${each.severity === 'warning' ? 'doubt' : 'bad'}>${each.by}${each.rule && each.rule !== each.by ? ` ${each.rule}` : ''}<//></span><span>${each.message}</span></li>`)}</ul>
    ${found.length > 100 && html`<p class="quiet">${found.length - 100} ${texts.notShown}</p>`}
    ${data.not_checked.length > 0 && html`<p class="quiet">${texts.notChecked} ${data.not_checked.join(', ')}</p>`}</details>`;
}

/** Attempts at one task in worktrees of their own. @param {{session: string, row: any, rows: Map<string, any>, maySteer: boolean}} props */
export function Farm({ session, row, rows, maySteer }) {
  const isParent = [...rows.values()].some((each) => each.parent === session && each.agent);
  const { data: farm } = useData(row && isParent ? `/sessions/${session}/farm` : '', row && row.events);
  const { error, isBusy, run } = useDoing();
  if (!farm) return null;
  const best = farm.attempts.find((each) => each.started.attempt === farm.best);
  const isLandable = best && best.ended && best.ended.commit && !farm.is_landed;
  return html`<details class="family farm" open><summary>${texts.attempts} · ${farm.attempts.filter((each) => each.ended).length}/${farm.started.attempts}</summary>
    <ul class="tree">${farm.attempts.map(({ started, ended }) => html`<li key=${started.attempt}><a class="member" href=${`#/s/${started.session}`}>
      <b>${started.attempt}</b><span class="line">${[started.model, started.hint, started.branch].filter(Boolean).join(' · ')}</span>
      <${Chip} tone=${!ended ? 'live' : (ended.failed || []).length || ended.ending !== 'done' ? 'bad' : 'good'}>${!ended ? texts.running.toLowerCase() : (ended.failed || []).length
        ? `${texts.failed} ${ended.failed.length}` : ended.ending}<//>
      ${started.attempt === farm.best && html`<${Chip} tone="good">${texts.best}<//>`}
      ${ended && html`<span class="quiet">±${ended.changed_lines || 0} · ${money((ended.used || {}).usd || 0)}${(ended.risks || []).length ? ` · ${texts.risks} ${ended.risks.join(', ')}` : ''}</span>`}</a></li>`)}</ul>
    ${farm.reason && html`<p class="quiet">${farm.reason}${farm.is_landed ? `. ${texts.landed}` : ''}</p>`}
    ${maySteer && isLandable && html`<div class="actions"><button class="main" disabled=${isBusy}
      onClick=${() => run(() => post(`/sessions/${session}/farm/land`))}>${texts.landBest}</button></div>`}
    <${Problem} error=${error} /></details>`;
}
