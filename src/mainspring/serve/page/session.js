// One session: what happened, as it happens, and what can be told to it. At most 300 rows are in the document.
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from './vendor/hooks.module.js';
import { Folded, html, Markdown, money, Problem, useDoing } from './parts.js';
import { stateOf, toneOf } from './fleet.js';
import { follow, get, post } from './net.js';
import { QuestionCard } from './questions.js';
import { texts } from './texts.js';

const PAGE = 100;
const MOST = 300;

/** @param {{part: any}} props */
function PartView({ part }) {
  switch (part.kind) {
    case 'user':
      return html`<div class="part user"><${Markdown} tree=${part.tree} />
        ${part.text && html`<p class="quiet">${part.text}</p>`}</div>`;
    case 'text':
      return html`<div class="part"><${Markdown} tree=${part.tree} /></div>`;
    case 'thinking':
      return html`<${Folded} title=${part.title} text=${part.text} isCut=${part.is_cut} class="part thinking" />`;
    case 'call':
      return html`<${Folded} title=${html`<code>${part.title}</code>`} text=${part.text} isCut=${part.is_cut}
        class="part call" />`;
    case 'result':
    case 'files':
      return html`<${Folded} title=${part.title} text=${part.text} isCut=${part.is_cut}
        class=${`part ${part.kind} ${part.tone || ''}`} />`;
    default:
      return html`<div class=${`part ${part.kind} ${part.tone || ''}`}>${part.title}</div>`;
  }
}

/** The rows that are shown, and what is being written. One state, so that a stream cannot tear it. */
function reduce(state, [what, value]) {
  switch (what) {
    case 'row': {
      if (value.seq <= state.last) return state;
      const after = { ...state, last: value.seq };
      if (value.parts.some((part) => part.kind === 'text')) after.draft = '';
      if (!state.isAtEnd || !value.parts.length) return after;
      const rows = [...state.rows, value];
      return { ...after, rows: rows.length > MOST ? rows.slice(-MOST + PAGE) : rows };
    }
    case 'delta': {
      const part = value.parts[0];
      if (part && part.kind === 'text') return { ...state, draft: state.draft + part.text };
      return part && part.kind === 'line' ? { ...state, status: part.text } : state;
    }
    case 'page':
      return { ...state, ...value, draft: '' };
    default:
      return state;
  }
}

/** @param {any[]} rows */
const visible = (rows) => rows.filter((row) => row.parts.length);

/** @param {string} session @param {number} before */
async function earlierRows(session, before) {
  let rows = /** @type {any[]} */ ([]);
  let from = before;
  while (rows.length < PAGE && from > 1) {
    const found = await get(`/sessions/${session}/view?before=${from}&limit=400`);
    if (!found.rows.length) break;
    rows = [...visible(found.rows), ...rows];
    from = found.rows[0].seq;
  }
  return { rows, from };
}

function useTranscript(session) {
  const [state, dispatch] = useReducer(reduce, { rows: [], last: 0, first: 1, isAtEnd: true, draft: '', status: '' });
  const [isOpen, setOpen] = useState(true);
  const last = useRef(0);
  last.current = Math.max(last.current, state.last);
  useEffect(() => {
    let leave = () => {};
    let isGone = false;
    const begin = async () => {
      const row = await get(`/sessions/${session}`);
      const { rows, from } = await earlierRows(session, row.events + 1);
      if (isGone) return;
      last.current = row.events;
      dispatch(['page', { rows: rows.slice(-MOST), last: row.events, first: from, isAtEnd: true }]);
      leave = follow(() => `/sessions/${session}/stream?view=1&after=${last.current}`, {
        message: (data) => dispatch(['row', data]), delta: (data) => dispatch(['delta', data]),
      }, setOpen);
    };
    begin().catch(() => setOpen(false));
    return () => { isGone = true; leave(); };
  }, [session]);
  const earlier = async () => {
    const { rows, from } = await earlierRows(session, state.rows.length ? state.rows[0].seq : state.first);
    const all = [...rows, ...state.rows];
    dispatch(['page', { rows: all.slice(0, MOST), first: from, isAtEnd: all.length <= MOST && state.isAtEnd }]);
  };
  const newest = async () => {
    const { rows, from } = await earlierRows(session, last.current + 1);
    dispatch(['page', { rows: rows.slice(-MOST), first: from, isAtEnd: true }]);
  };
  return { state, isOpen, earlier, newest };
}

/** @param {{session: string}} props */
function Changes({ session }) {
  const [steps, setSteps] = useState(/** @type {any[] | null} */ (null));
  const { error, run } = useDoing();
  useEffect(() => { run(async () => setSteps(await get(`/sessions/${session}/changes`))); }, [session]);
  return html`<section><${Problem} error=${error} />
    ${steps && !steps.length && html`<p class="quiet">${texts.noChanges}</p>`}
    ${(steps || []).map((step) => step.changed.changes.map((change, place) => html`
      <details class="part files" open key=${`${step.seq}-${place}`}>
        <summary>${change.path}</summary>
        <pre class="diff" tabindex="0">${(step.diffs[place] || []).map((line, number) => html`<span key=${number}
          class=${line[0] === '+' ? 'plus' : line[0] === '-' ? 'minus' : line[0] === '@' ? 'at' : ''}>${line.replace(/\n?$/, '\n')}</span>`)}</pre>
      </details>`))}
  </section>`;
}

/** @param {{session: string, mayStop: boolean, isRunning: boolean}} props */
function Compose({ session, mayStop, isRunning }) {
  const [text, setText] = useState('');
  const { error, isBusy, run } = useDoing();
  const send = () => run(async () => {
    await post(`/sessions/${session}/say`, { text });
    setText('');
  });
  const undo = () => run(async () => {
    if (confirm(texts.confirmUndo)) await post(`/sessions/${session}/back`, { scope: 'both' });
  });
  const fork = () => run(async () => {
    const made = await post(`/sessions/${session}/fork`);
    location.hash = `#/s/${made.session}`;
  });
  if (!mayStop) return html`<p class="quiet">${texts.watchOnly}</p>`;
  return html`<form class="compose" onSubmit=${(event) => { event.preventDefault(); send(); }}>
    <textarea rows="2" aria-label=${texts.say} placeholder=${texts.say} value=${text}
      onInput=${(event) => setText(event.currentTarget.value)}
      onKeyDown=${(event) => { if (event.key === 'Enter' && !event.shiftKey && text.trim()) { event.preventDefault(); send(); } }} />
    <div class="actions">
      <button class="main" disabled=${isBusy || !text.trim()}>${texts.send}</button>
      ${isRunning && html`<button type="button" class="danger"
        onClick=${() => run(() => post(`/sessions/${session}/stop`))}>${texts.stop}</button>`}
      ${!isRunning && html`<button type="button" onClick=${undo}>${texts.undo}</button>
        <button type="button" onClick=${fork}>${texts.fork}</button>`}
    </div>
    <${Problem} error=${error} />
  </form>`;
}

/** @param {{session: string, row: any, questions: any[], me: any}} props */
export function SessionView({ session, row, questions, me }) {
  const { state, isOpen, earlier, newest } = useTranscript(session);
  const [tab, setTab] = useState('transcript');
  const { error, run } = useDoing();
  const end = useRef(/** @type {any} */ (null));
  const isNear = useRef(true);
  useLayoutEffect(() => { if (isNear.current && end.current) end.current.scrollIntoView({ block: 'end' }); },
    [state.rows, state.draft, questions.length]);
  useEffect(() => {
    const look = () => { isNear.current = innerHeight + scrollY > document.documentElement.scrollHeight - 120; };
    addEventListener('scroll', look, { passive: true });
    return () => removeEventListener('scroll', look);
  }, []);
  const name = row ? row.goal || row.title || session : session;
  const isRunning = row && row.state === 'running';
  return html`<main class="session">
    <h1>${name}</h1>
    ${row && html`<p class="quiet"><span class=${`state ${toneOf(stateOf(row))}`}>${stateOf(row)}</span>
      ${' '}${row.model} · ${money(row.cost_usd)} · ${row.workspace} · ${session}</p>`}
    <div class="tabs" role="group">${['transcript', 'changes'].map((each) => html`
      <button key=${each} aria-pressed=${tab === each} onClick=${() => setTab(each)}>${texts[each]}</button>`)}</div>
    ${!isOpen && html`<p class="problem" role="status">${texts.offline}</p>`}
    <${Problem} error=${error} />
    ${tab === 'changes' ? html`<${Changes} session=${session} />` : html`
      ${state.first > 1 && html`<button onClick=${() => run(earlier)}>${texts.earlier}</button>`}
      <ol class="rows" aria-live="polite">${state.rows.map((each) => html`<li key=${each.seq} id=${`e${each.seq}`}>
        ${each.parts.map((part, place) => html`<${PartView} key=${place} part=${part} />`)}</li>`)}</ol>
      ${!state.isAtEnd && html`<button onClick=${() => run(newest)}>${texts.newest}</button>`}
      ${state.draft && html`<div class="part draft"><pre>${state.draft}</pre></div>`}
      ${questions.map((asked) => html`<${QuestionCard} key=${asked.question.call} asked=${asked}
        mayAnswer=${me.role !== 'watch'} />`)}
      <${Compose} session=${session} mayStop=${me.role === 'steer' || me.role === 'owner'} isRunning=${isRunning} />
      <div ref=${end}></div>`}
  </main>`;
}
