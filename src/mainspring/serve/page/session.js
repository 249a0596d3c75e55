// One session: its transcript, changes, outputs and processes, and what can be told to it.
import { useEffect, useLayoutEffect, useRef, useState } from './vendor/hooks.module.js';
import { ago, Chip, Empty, html, money, Problem, Tabs, useData, useDoing } from './parts.js';
import { SessionArtifacts } from './artifacts.js';
import { BackTab } from './back.js';
import { Branch, Checked, Farm } from './branch.js';
import { Bar } from './charts.js';
import { Diffs } from './diff.js';
import { stateOf, toneOf } from './fleet.js';
import { Family, Tasks } from './family.js';
import { GoalTab, ReportTab, Waits } from './goal.js';
import { get, post } from './net.js';
import { QuestionCard } from './questions.js';
import { RecordTab } from './record.js';
import { texts } from './texts.js';
import { Transcript } from './transcript.js';

/** @param {{session: string, row: any, maySteer: boolean}} props */
function Changes({ session, row, maySteer }) {
  const { data, error } = useData(row ? `/sessions/${session}/changes` : '', row && row.events);
  const files = (data || []).flatMap((step) => (step.changed.changes || []).map((change, place) => (
    { path: change.path, kind: change.kind, lines: step.diffs[place] || [], extra: html`<p class="quiet"><a href=${`#/s/${session}/back/${step.seq - 1}`}>${texts.backTo} ${step.seq - 1}</a></p>` })));
  return html`<section><${Branch} session=${session} row=${row} maySteer=${maySteer} /><${Checked} session=${session} row=${row} /><${Problem} error=${error} />
    ${data && !files.length && html`<${Empty} title=${texts.noChanges} help=${texts.noChangesHelp} />`}
    ${files.length > 0 && html`<${Diffs} files=${files} />`}</section>`;
}

/** @param {{process: any, session: string, maySteer: boolean}} props */
function ProcessCard({ process, session, maySteer }) {
  const [written, setWritten] = useState('');
  const [isRunning, setRunning] = useState(true);
  const { error, run } = useDoing();
  const at = useRef(/** @type {number | null} */ (null));
  const shown = useRef(/** @type {any} */ (null));
  const isAtEnd = useRef(true);
  useLayoutEffect(() => { if (isAtEnd.current && shown.current) shown.current.scrollTop = shown.current.scrollHeight; }, [written]);
  useEffect(() => {
    let timer = 0;
    const look = async () => {
      try {
        const found = await get(`/sessions/${session}/output?handle=${process.handle}${at.current === null ? '' : `&since=${at.current}`}`);
        at.current = found.next_offset;
        if (found.text) setWritten((before) => (before + found.text).slice(-40000));
        setRunning(found.is_running);
        if (found.is_running) timer = setTimeout(look, 1000);
      } catch { /* its folder is gone: what was shown stays */ }
    };
    if (process.handle) look();
    return () => clearTimeout(timer);
  }, [process.handle]);
  return html`<li class="card"><span class="head"><b>${process.handle || process.pid}</b><${Chip} tone=${isRunning ? 'live' : ''}>${isRunning ? process.state : texts.ended}<//></span>
    ${process.command && html`<code class="wide">${process.command}</code>`}
    <span class="quiet">pid ${process.pid} · ${ago(process.started_us)}</span>
    <pre class="live" tabindex="0" ref=${shown} onScroll=${(event) => { const box = event.currentTarget; isAtEnd.current = box.scrollTop + box.clientHeight > box.scrollHeight - 40; }}>${written || texts.noOutput}</pre>
    ${maySteer && process.handle && isRunning && html`<div class="actions"><button class="danger"
      onClick=${() => run(() => post(`/sessions/${session}/end-process`, { handle: process.handle }))}>${texts.endProcess}</button></div>`}
    <${Problem} error=${error} /></li>`;
}

/** @param {{session: string, row: any, maySteer: boolean}} props */
function Processes({ session, row, maySteer }) {
  const { data, error } = useData(row ? `/processes?session=${session}` : '', row && row.events);
  return html`<section><${Problem} error=${error} />
    ${data && !data.length && html`<${Empty} title=${texts.noProcesses} help=${texts.noProcessesHelp} />`}
    <ul class="cards">${(data || []).map((process) => html`<${ProcessCard} key=${`${process.handle}${process.pid}`} process=${process} session=${session} maySteer=${maySteer} />`)}</ul></section>`;
}

/** What was left for a running turn and is not said yet. @param {{session: string, version: any, maySteer: boolean}} props */
function Unsaid({ session, version, maySteer }) {
  const [count, setCount] = useState(0);
  const { data } = useData(`/sessions/${session}/waiting`, `${version}/${count}`);
  const { error, run } = useDoing();
  const end = (id) => run(() => post(`/sessions/${session}/waiting/end`, { id })).then(() => setCount(count + 1));
  return html`${data && data.length > 0 && html`<ul class="cards unsaid" aria-label=${texts.unsaid}>${data.map((message) => html`<li class="card" key=${message.id}>
    <span class="head"><span><span class="quiet">${message.is_steer ? texts.afterStep : texts.afterTurn}:</span> ${message.text}</span>
      ${maySteer && html`<button class="small" onClick=${() => end(message.id)}>${texts.takeBack}</button>`}</span></li>`)}</ul>`}<${Problem} error=${error} />`;
}

/** @param {{session: string, maySteer: boolean, mayAnswer: boolean, isRunning: boolean, version: any}} props */
function Compose({ session, maySteer, mayAnswer, isRunning, version }) {
  const [text, setText] = useState('');
  const [sent, setSent] = useState(0);
  const { error, isBusy, run } = useDoing();
  const send = (how = 'say') => run(async () => {
    await post(`/sessions/${session}/${how}`, { text });
    setText('');
    setSent(sent + 1);
  });
  const fork = () => run(async () => {
    const made = await post(`/sessions/${session}/fork`);
    location.hash = `#/s/${made.session}`;
  });
  if (!maySteer) return html`<p class="quiet">${mayAnswer ? texts.answerOnly : texts.watchOnly}</p>`;
  return html`${isRunning && html`<${Unsaid} session=${session} version=${`${version}/${sent}`} maySteer=${maySteer} />`}<form class="compose" onSubmit=${(event) => { event.preventDefault(); send(); }}>
    <textarea rows="2" aria-label=${texts.say} placeholder=${texts.say} value=${text}
      onInput=${(event) => setText(event.currentTarget.value)}
      onKeyDown=${(event) => { if (event.key === 'Enter' && !event.shiftKey && !event.isComposing && text.trim()) { event.preventDefault(); send(); } }} />
    <div class="actions">
      <button class="main" disabled=${isBusy || !text.trim()}>${texts.send}</button>
      ${isRunning && html`<button type="button" disabled=${isBusy || !text.trim()} onClick=${() => send('queue')}>${texts.queue}</button>
        <button type="button" class="danger"
        onClick=${() => run(() => post(`/sessions/${session}/stop`))}>${texts.stop}</button>`}
      ${!isRunning && html`<a class="button" href=${`#/s/${session}/back`}>${texts.undo}</a>
        <button type="button" onClick=${fork}>${texts.fork}</button>`}
    </div>
    <${Problem} error=${error} />
  </form>`;
}

/** @param {{session: string, row: any}} props */
function Standing({ session, row }) {
  const { data: use } = useData(row ? `/sessions/${session}/context` : '', row && row.events);
  const { data: now } = useData(row ? `/sessions/${session}/now` : '', row && row.events);
  const plan = now ? now.plan : [];
  return html`<aside class="standing">
    ${use && use.window && html`<div class="meter"><span class="quiet">${texts.context} ${Math.round((use.tokens / use.window) * 100)} % · ${use.tokens.toLocaleString('en')} ${texts.tokensOf} ${use.window.toLocaleString('en')}</span>
      <${Bar} share=${use.tokens / use.window} /></div>`}
    ${plan.length > 0 && html`<details class="plan" open=${plan.length < 8}><summary>${texts.plan} · ${plan.filter((item) => item.progress === 'done').length}/${plan.length}</summary>
      <ol>${plan.map((item, place) => html`<li key=${place} class=${item.progress || 'open'}>${item.text}</li>`)}</ol></details>`}
  </aside>`;
}

/** @param {{session: string, view: string, rows: Map<string, any>, questions: any[], me: any}} props */
export function SessionView({ session, view, rows, questions, me }) {
  const row = rows.get(session);
  const maySteer = me.role === 'steer' || me.role === 'owner';
  const name = row ? row.goal || row.title || session : session;
  const isRunning = row && row.state === 'running';
  const at = `#/s/${session}`;
  const items = /** @type {[string, string][]} */ ([...(row && row.goal ? [[`${at}/goal`, texts.goal]] : []), [at, texts.transcript], [`${at}/changes`, texts.changes],
    [`${at}/artifacts`, texts.artifacts], [`${at}/processes`, texts.processes], [`${at}/record`, texts.record]]);
  const [tab, seq] = view.split('/');
  const [isMissing, setMissing] = useState(false);
  const wasThere = useRef(false);
  wasThere.current = wasThere.current || Boolean(row);
  if (!row && wasThere.current) return html`<main><h1 class="hidden">${texts.session}</h1><${Empty} title=${texts.sessionGone} help=${texts.sessionGoneHelp} /></main>`;
  if (!row && isMissing) return html`<main><h1 class="hidden">${texts.session}</h1><${Empty} title=${texts.noSession} help=${texts.noSessionHelp} /></main>`;
  const inner = { session, row, maySteer };
  return html`<main class="session">
    <h1>${name.length > 160 ? `${name.slice(0, 160)}…` : name}</h1>
    ${row && html`<p class="meta"><${Chip} tone=${toneOf(stateOf(row))}>${stateOf(row)}<//>
      <span>${row.model || '–'}</span><span>${money(row.cost_usd)}</span><span class="path">${row.workspace}</span><code>${session}</code></p>`}
    <${Tabs} items=${items} here=${tab === 'report' ? `${at}/goal` : tab === 'back' ? at : tab ? `${at}/${tab}` : at} label=${texts.session} />
    ${tab === 'changes' ? html`<${Changes} ...${inner} />` : tab === 'artifacts' ? html`<${SessionArtifacts} ...${inner} />`
      : tab === 'record' ? html`<${RecordTab} rows=${rows} ...${inner} />` : tab === 'processes' ? html`<${Processes} ...${inner} />` : tab === 'goal' ? html`<${GoalTab} ...${inner} />`
        : tab === 'report' ? html`<${ReportTab} ...${inner} />` : tab === 'back' ? html`<${BackTab} key=${seq} seq=${seq || ''} ...${inner} />` : html`
      <${Standing} session=${session} row=${row} /><${Tasks} session=${session} rows=${rows} /><${Farm} session=${session} row=${row} rows=${rows} maySteer=${maySteer} /><${Family} session=${session} rows=${rows} />
      <${Transcript} session=${session} onMissing=${() => setMissing(true)}><${Waits} session=${session} row=${row} />
        ${questions.map((asked) => html`<${QuestionCard} key=${asked.question.call} asked=${asked} mayAnswer=${me.role !== 'watch'} isHere />`)}
        <${Compose} session=${session} maySteer=${maySteer} mayAnswer=${me.role !== 'watch'} isRunning=${isRunning} version=${row && row.events} /><//>`}
  </main>`;
}
