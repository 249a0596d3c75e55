// The workers of all machines: what they do, what waits for them, what failed; and to steer them.
import { useEffect, useRef, useState } from './vendor/hooks.module.js';
import { Chip, clock, Empty, html, money, Problem, span, useData, useDoing } from './parts.js';
import { post } from './net.js';
import { texts } from './texts.js';

const LOOK_MS = 2000;
const ORDER = ['set aside', 'waiting', 'at work', 'asleep'];
const TONES = { 'set aside': 'bad', waiting: 'doubt', 'at work': 'live', asleep: '' };

/** Counts up while the page is seen, so that what is shown stays true. */
function useLooks() {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const look = () => { if (!document.hidden) setCount((before) => before + 1); };
    const timer = setInterval(look, LOOK_MS);
    document.addEventListener('visibilitychange', look);
    return () => { clearInterval(timer); document.removeEventListener('visibilitychange', look); };
  }, []);
  return [count, () => setCount((before) => before + 1)];
}

/** @param {string[]} labels */
const labelsOf = (labels) => (labels.length ? html`<span>${texts.labels} ${labels.join(', ')}</span>` : '');

/** @param {{queues: any[]}} props */
const Queues = ({ queues }) => html`<h2>${texts.queues}</h2><ul class="cards">${queues.map((queue) => html`<li class="card" key=${queue.queue}>
  <span class="head"><b>${queue.queue}</b>${!queue.workers && queue.waiting > 0 ? html`<${Chip} tone="bad">${texts.noWorker}<//>`
    : html`<${Chip} tone=${queue.waiting ? 'doubt' : 'good'}>${queue.waiting ? `${queue.waiting} ${texts.waitingFor}` : texts.nothingWaits}<//>`}</span>
  <span class="meta"><span>${queue.at_work} ${texts.of} ${queue.capacity} ${texts.atWork}</span>
    ${queue.waiting > 0 && html`<span>${texts.lag} ${span(queue.lag_s)}</span>`}${queue.asleep > 0 && html`<span>${queue.asleep} ${texts.asleep}</span>`}
    ${queue.set_aside > 0 && html`<span class="bad">${queue.set_aside} ${texts.setAside}</span>`}
    ${queue.crashes > 0 && html`<span class="bad">${queue.crashes} ${texts.crashes(queue.crashes)}</span>`}<span>${money(queue.cost_usd)}</span></span></li>`)}</ul>`;

/** @param {{workers: any[], sessions: any[], mayManage: boolean, onDone: () => void}} props */
function Workers({ workers, sessions, mayManage, onDone }) {
  const { error, isBusy, run } = useDoing();
  const drain = (worker) => run(async () => { await post('/fleet/drain', { worker }); onDone(); });
  const card = (worker) => {
    const here = sessions.filter((each) => each.worker === worker.id);
    const state = !worker.is_alive ? texts.gone : worker.is_draining ? texts.draining : here.length ? texts.atWork : texts.idle;
    return html`<li class="card" key=${worker.id}><span class="head"><b>${worker.id}</b>
        <${Chip} tone=${!worker.is_alive ? 'bad' : worker.is_draining ? 'doubt' : here.length ? 'live' : 'good'}>${state}<//></span>
      <span class="meta"><span>${worker.host}</span><span>${texts.queue_} ${worker.queue}</span>${labelsOf(worker.labels)}
        <span>${here.length} ${texts.of} ${worker.capacity} ${texts.atWork}</span><span>${texts.heard} ${span(worker.silent_s)} ${texts.ago}</span>
        <span>mainspring ${worker.version}</span><span>${money(here.reduce((sum, each) => sum + each.cost_usd, 0))}</span></span>
      ${here.map((each) => html`<a class="line" key=${each.session} href=${`#/s/${each.session}`}>${each.title || each.session}</a>`)}
      ${mayManage && worker.is_alive && !worker.is_draining && html`<div class="actions"><button disabled=${isBusy} onClick=${() => drain(worker.id)}>${texts.drain}</button></div>`}</li>`;
  };
  return html`<h2>${texts.workers}</h2><${Problem} error=${error} />
    ${!workers.length && html`<${Empty} title=${texts.noWorkers} help=${texts.noWorkersHelp} />`}<ul class="cards">${workers.map(card)}</ul>`;
}

/** @param {{row: any, maySteer: boolean, onDone: () => void}} props */
function Queued({ row, maySteer, onDone }) {
  const { error, isBusy, run } = useDoing();
  const [isMoving, setMoving] = useState(false);
  const [queue, setQueue] = useState(row.queue);
  const [labels, setLabels] = useState(row.labels.join(','));
  const move = (event) => {
    event.preventDefault();
    run(async () => { await post('/fleet/move', { session: row.session, queue, labels }); setMoving(false); onDone(); });
  };
  const retry = () => run(async () => { await post('/fleet/retry', { session: row.session }); onDone(); });
  return html`<li class="card"><span class="head"><a class="title" href=${`#/s/${row.session}`}>${row.title || row.session}</a><${Chip} tone=${TONES[row.place]}>${row.state}<//></span>
    <span class="meta"><span>${texts.queue_} ${row.queue}</span>${labelsOf(row.labels)}${row.person && html`<span>${row.person}</span>`}
      ${row.worker && html`<span class="path">${row.worker}</span>`}${row.waits_s >= 1 && html`<span>${texts.waitsSince} ${span(row.waits_s)}</span>`}
      ${row.wake_us && !row.worker && html`<span>${texts.until} ${clock(row.wake_us)}</span>`}
      ${row.crashes > 0 && html`<span class="bad">${row.crashes} ${texts.crashes(row.crashes)}</span>`}<span>${money(row.cost_usd)}</span></span>
    ${row.detail && html`<span class="quiet">${row.detail}</span>`}
    ${maySteer && html`<div class="actions">${(row.is_set_aside || (row.place === 'waiting' && row.crashes > 0)) && html`<button disabled=${isBusy} onClick=${retry}>${texts.tryAgain}</button>`}
      <button aria-expanded=${isMoving} onClick=${() => setMoving(!isMoving)}>${texts.move}</button></div>`}
    ${isMoving && html`<form class="fields" onSubmit=${move}>
      <label>${texts.queueName}<input required value=${queue} onInput=${(event) => setQueue(event.currentTarget.value)} /></label>
      <label>${texts.needsLabels}<input value=${labels} placeholder="gpu,slurm" onInput=${(event) => setLabels(event.currentTarget.value)} /></label>
      <div class="actions"><button class="main" disabled=${isBusy || !queue.trim()}>${texts.moveThere}</button></div></form>`}
    <${Problem} error=${error} /></li>`;
}

/** @param {{me: any}} props */
export function WorkersView({ me }) {
  const [looks, look] = useLooks();
  const { data: found, error } = useData('/fleet', looks);
  const last = useRef(/** @type {any} */ (null)); // what was shown stays while the store cannot be asked
  if (found) last.current = found;
  const data = last.current;
  if (!data) return error ? html`<${Problem} error=${error} />` : html`<p class="quiet">${texts.loading}</p>`;
  if (!data.fleet) return html`<${Empty} title=${texts.noFleet} help=${texts.noFleetHelp} />`;
  const { workers, sessions, queues } = data.fleet;
  const maySteer = me.role === 'steer' || me.role === 'owner';
  const rows = [...sessions].sort((one, other) => ORDER.indexOf(one.place) - ORDER.indexOf(other.place));
  return html`<section><${Problem} error=${error} />${queues.length > 0 && html`<${Queues} queues=${queues} />`}
    <${Workers} workers=${workers} sessions=${sessions} mayManage=${me.role === 'owner'} onDone=${look} />
    <h2>${texts.inQueues}</h2>${!rows.length && html`<${Empty} title=${texts.nothingQueued} help=${texts.nothingQueuedHelp} />`}
    <ul class="cards">${rows.map((row) => html`<${Queued} key=${row.session} row=${row} maySteer=${maySteer} onDone=${look} />`)}</ul></section>`;
}
