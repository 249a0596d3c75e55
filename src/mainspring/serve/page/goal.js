// A goal: how it stands, its iterations, metrics, claims, waits, checks and outputs, and its report.
import { Chip, clock, html, localTimes, Markdown, money, Problem, span, useData, useDoing, useNow } from './parts.js';
import { useState } from './vendor/hooks.module.js';
import { ClaimGraph, claimTone, figure, MetricPlot } from './charts.js';
import { SessionArtifacts } from './artifacts.js';
import { post } from './net.js';
import { texts } from './texts.js';

const TONES = { verified: 'good', checked: 'good', claimed: 'doubt', refuted: 'bad', 'not done': 'bad', 'so far': 'live' };
const outcomeTone = (outcome) => (!outcome ? 'live' : /improv|done|ok|progress|passed|better/.test(outcome) ? 'good' : /fail|crash|error/.test(outcome) ? 'bad' : 'doubt');

/** @param {{wait: any}} props */
function Countdown({ wait }) {
  const now = useNow();
  const left = wait.until_us ? wait.until_us / 1e6 - now / 1000 : null;
  const whole = left === null ? 0 : Math.max(0, Math.round(left));
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60].map((each) => String(each).padStart(2, '0'));
  return html`<div class="card wait"><span class="head"><b>${texts.waitsFor} ${localTimes(wait.what)}</b>
    ${left !== null && html`<span class="countdown" role="timer">${left > 0 ? parts.join(':') : texts.overdue}</span>`}</span>
    ${wait.reason && html`<span class="quiet">${wait.reason}</span>`}</div>`;
}

/** @param {{session: string, row: any}} props */
export function Waits({ session, row }) {
  const { data } = useData(row && (row.is_waiting || row.state === 'running') ? `/sessions/${session}/now` : '', row && row.events);
  return data && data.waits.length > 0 && html`<section><h2>${texts.waits}</h2>
    ${data.waits.map((wait, place) => html`<${Countdown} key=${place} wait=${wait} />`)}</section>`;
}

/** @param {{iterations: any[], total: number}} props */
function Timeline({ iterations, total }) {
  if (!iterations.length) return html`<p class="quiet">${texts.noIterations}</p>`;
  return html`<ol class="timeline">${[...iterations].reverse().map((each) => html`<li key=${each.number} class=${outcomeTone(each.outcome)}>
    <details><summary><span class="head"><b>${each.number}. ${each.outcome || texts.running}</b>
      <span class="quiet">${clock(each.started_us)} · ${span(each.working_s || 0)} · ${money(each.cost_usd || 0)}</span></span>
      ${(each.said || each.detail) && html`<span class="said">${(each.said || each.detail).slice(0, 200)}</span>`}</summary>
      ${each.detail && html`<p class="quiet">${each.detail}</p>`}
      ${(each.failed_checks || []).map((check) => html`<p class="bad" key=${check}>✗ ${check}</p>`)}
      ${(each.commands || []).map((command) => html`<p key=${command.seq} class="command"><span class=${command.exit_code || command.outcome !== 'ok' ? 'bad' : 'good'}>
        ${command.exit_code || command.outcome !== 'ok' ? '✗' : '✓'}</span> <code>${command.command || command.tool}</code></p>`)}
      ${(each.files || []).length > 0 && html`<p class="quiet">${each.files.map((file) => `${file.kind} ${file.path}`).join(', ')}</p>`}
    </details></li>`)}
    ${total > iterations.length && html`<li class="quiet">… ${total - iterations.length}</li>`}</ol>`;
}

/** @param {{report: any, metric: any}} props */
function MetricCard({ report, metric }) {
  const target = ((report.checks_wanted || {}).targets || []).find((each) => each.metric === metric.name);
  const best = metric.rows.find((row) => row.iteration === metric.best_iteration);
  return html`<figure class="card"><figcaption class="head"><b>${metric.name}${metric.unit ? ` (${metric.unit})` : ''}</b>
    <span class="quiet">${best ? `${texts.best} ${figure(best.mean)}, ${texts.iteration} ${best.iteration}` : ''}${metric.better ? ` · ${texts[metric.better] || metric.better}` : ''}</span></figcaption>
    <${MetricPlot} metric=${metric} target=${target} /><p class="quiet">${texts.band}</p></figure>`;
}

/** Going on with a goal; one that ran out of something gets more of it. @param {{session: string, isOut: boolean, row: any}} props */
function Resume({ session, isOut, row }) {
  const [more, setMore] = useState('');
  const { error, isBusy, run } = useDoing();
  const name = row.goal_state === 'cost' ? 'max_cost_usd' : 'max_iterations';
  const go = () => run(() => post(`/sessions/${session}/resume`, isOut ? { [name]: Number(more) } : {}));
  return html`<form class="inline" onSubmit=${(event) => { event.preventDefault(); go(); }}>
    ${isOut && html`<label class="inline">${name === 'max_cost_usd' ? texts.cap : texts.iterationsMost}<input inputmode="decimal" size="5" value=${more} onInput=${(event) => setMore(event.currentTarget.value)} /></label>`}
    <button class="main" disabled=${isBusy || (isOut && !(Number(more) > 0))}>${texts.goOn}</button><${Problem} error=${error} /></form>`;
}

/** @param {{session: string, row: any, maySteer: boolean}} props */
export function GoalTab({ session, row, maySteer }) {
  const { data: report, error } = useData(row ? `/sessions/${session}/report` : '', row && row.events);
  const doing = useDoing();
  if (error) return html`<${Problem} error=${error} />`;
  if (!report) return html`<p class="quiet">${texts.loading}</p>`;
  const isOver = !row || row.goal_state !== 'running';
  const isResumable = row && isOver && row.goal_state !== 'done';
  const isOut = isResumable && ['iterations', 'cost'].includes(row.goal_state);
  const order = (name) => doing.run(() => post(`/sessions/${session}/order`, { order: name }));
  const claims = report.claims || [];
  return html`<div class="goal">
    <section class="tiles">
      <div class="tile"><span class="quiet">${texts.standing}</span><b class=${TONES[report.standing || 'so far'] || ''}>${report.standing || 'so far'}</b></div>
      <div class="tile"><span class="quiet">${texts.iterations}</span><b>${report.iterations_total || 0}</b></div>
      <div class="tile"><span class="quiet">${texts.spent}</span><b>${money(report.cost_usd || 0)}</b></div>
      <div class="tile"><span class="quiet">${texts.worked}</span><b>${span(report.clock.working_s || 0)}</b></div>
    </section>
    ${report.standing_why && html`<p>${report.standing_why}</p>`}
    <div class="actions"><a class="button" href=${`#/s/${session}/report`}>${texts.readReport}</a>
      ${maySteer && !isOver && html`<button onClick=${() => order('pause')}>${texts.pause}</button>
        <button class="danger" onClick=${() => order('stop')}>${texts.stop}</button>`}
      ${maySteer && isResumable && html`<${Resume} session=${session} isOut=${isOut} row=${row} />`}</div>
    <${Problem} error=${doing.error} />
    <${Waits} session=${session} row=${row} />
    ${(report.metrics || []).length > 0 && html`<section><h2>${texts.metrics}</h2><div class="grid">
      ${report.metrics.map((metric) => html`<${MetricCard} key=${metric.name} report=${report} metric=${metric} />`)}</div></section>`}
    <section><h2>${texts.iterations}</h2><${Timeline} iterations=${report.iterations || []} total=${report.iterations_total || 0} /></section>
    ${claims.length > 0 && html`<section><h2>${texts.claims}</h2>
      ${claims.length <= 60 && html`<${ClaimGraph} claims=${claims} />`}
      <ul class="cards">${claims.map((claim) => html`<li class="card" key=${claim.name}><span class="head"><b>${claim.name}</b>
        <${Chip} tone=${claimTone(claim.status)}>${claim.status}<//></span><span>${claim.statement}</span>
        ${(claim.depends_on || []).length > 0 && html`<span class="quiet">${texts.dependsOn} ${claim.depends_on.join(', ')}</span>`}
        ${claim.doubt && html`<span class="doubt">${claim.doubt}</span>`}</li>`)}</ul></section>`}
    ${(report.checks || []).length > 0 && html`<section><h2>${texts.checks}</h2><ul class="cards">${report.checks.slice(0, 20).map((check) => html`<li class="card" key=${`${check.seq}-${check.check}`}>
      <span class="head"><code>${check.check}</code><${Chip} tone=${check.passed ? 'good' : 'bad'}>${check.passed ? texts.passed : texts.failed}<//></span>
      <span class="quiet">${texts.iteration} ${check.iteration}${check.grade ? ` · ${check.grade}` : ''}${check.detail ? ` · ${check.detail}` : ''}</span></li>`)}</ul></section>`}
    <section><h2>${texts.artifacts}</h2><${SessionArtifacts} session=${session} row=${row} maySteer=${false} /></section>
  </div>`;
}

/** @param {{session: string, row: any}} props */
export function ReportTab({ session, row }) {
  const { data, error } = useData(row ? `/sessions/${session}/report/page` : '', row && row.events);
  return html`<article class="report"><p><a href=${`#/s/${session}/goal`}>${texts.backToGoal}</a></p><${Problem} error=${error} />
    ${data && html`<${Markdown} tree=${data.tree} />`}</article>`;
}
