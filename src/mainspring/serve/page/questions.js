// What waits for a person, and the answers. One answer counts; who gave it is shown to the others.
import { useEffect, useRef, useState } from './vendor/hooks.module.js';
import { Chip, clock, Empty, Folded, html, money, Problem, useDoing } from './parts.js';
import { get, post } from './net.js';
import { texts } from './texts.js';

/** What a question does not say is as usual: the server leaves defaults out. @param {any} question @returns {string[]} */
const scopesOf = (question) => (question.scopes || ['once', 'session', 'project', 'forever']).filter((scope) => SCOPES[scope]);
const SCOPES = { session: 'scopeSession', project: 'scopeProject', forever: 'scopeForever' };

/** @param {any} question */
function shown(question) {
  try {
    const given = JSON.parse(question.arguments);
    if (question.tool === 'ask') return given.question || question.arguments;
    return given.command || given.path || given.url || question.arguments;
  } catch {
    return question.arguments;
  }
}

/** @param {string} session @param {any} question @param {object} reply */
export const answer = (session, question, reply) =>
  post(`/sessions/${session}/answer`, { call: question.call, reply });

/** What a yes for more than once would cover. @param {any} question */
const covered = (question) => (question.offers || []).map((offer) => offer.command || offer.path || offer.host || question.tool).join(', ') || texts.thisCall;

/** @param {{question: any, isBusy: boolean, onGive: (reply: object) => void, onCancel: () => void}} props */
function Always({ question, isBusy, onGive, onCancel }) {
  const scopes = scopesOf(question);
  const [scope, setScope] = useState(scopes[0]);
  const [lasts, setLasts] = useState('');
  return html`<fieldset class="always"><legend>${texts.alwaysTitle}</legend>
    ${scopes.map((each) => html`<label class="inline" key=${each}><input type="radio" name=${`scope-${question.call}`} checked=${scope === each}
      onChange=${() => setScope(each)} /> ${texts[SCOPES[each]]}</label>`)}
    <p class="quiet">${texts.covers}: <code>${covered(question)}</code></p>
    <label>${texts.lasts}<select value=${lasts} onChange=${(event) => setLasts(event.currentTarget.value)}>
      ${[['', 'lastsAlways'], ['1h', 'lasts1h'], ['8h', 'lasts8h'], ['7d', 'lasts7d']].map(([value, name]) => html`<option key=${value} value=${value}>${texts[name]}</option>`)}</select></label>
    <div class="actions"><button class="main" disabled=${isBusy} onClick=${() => onGive(lasts ? { scope, lasts } : { scope })}>${texts.alwaysTitle}</button>
      <button onClick=${onCancel}>${texts.cancel}</button></div></fieldset>`;
}

/** `isHere`: on the page of its session. @param {{asked: any, mayAnswer: boolean, isHere?: boolean}} props */
export function QuestionCard({ asked, mayAnswer, isHere }) {
  const { session, question } = asked;
  const { error, isBusy, run } = useDoing();
  const [text, setText] = useState('');
  const [form, setForm] = useState('');
  const [edit, setEdit] = useState(shown(question));
  const [other, setOther] = useState(/** @type {any} */ (null));
  const isAsk = question.tool === 'ask';
  const give = (reply) => run(async () => {
    try {
      await answer(session, question, reply);
    } catch (problem) {
      const found = await get(`/sessions/${session}/answered?call=${encodeURIComponent(question.call)}`).catch(() => null);
      if (!found) throw problem;
      setOther(found);
    }
  });
  if (other) return html`<${Answered} asked=${asked} found=${other} />`;
  return html`<article class="question" aria-label=${`${question.tool} ${shown(question)}`.slice(0, 120)}>
    <p class="meta"><${Chip} tone="doubt">${question.tool}<//>${!isHere && html`<a href=${`#/s/${session}`}>${asked.title || session}</a>`}
      ${question.reason && !isAsk && html`<span>${question.reason}</span>`}
      ${question.estimate_usd != null && html`<span>≈ ${money(question.estimate_usd)}</span>`}</p>
    ${isAsk ? html`<p class="asks">${shown(question)}</p>` : html`<pre class="asked" tabindex="0">${shown(question)}</pre>`}
    ${!isAsk && html`<${Folded} title=${texts.arguments} text=${question.arguments} class="fold" />`}
    ${(question.scripts || []).map((script) => html`
      <${Folded} key=${script.path} title=${script.path} text=${script.text} class="fold" />`)}
    ${!mayAnswer ? html`<p class="quiet">${texts.watchOnly}</p>` : isAsk ? html`
      <label>${texts.answer}<textarea rows="2" value=${text} onInput=${(event) => setText(event.currentTarget.value)} /></label>
      <div class="actions"><button class="main" disabled=${isBusy || !text.trim()} onClick=${() => give({ feedback: text, is_said: true })}>${texts.answer}</button>
        <button class="danger" disabled=${isBusy} onClick=${() => give({ decision: 'stop', feedback: text })}>${texts.stopTurn}</button></div>`
    : form === 'always' ? html`<${Always} question=${question} isBusy=${isBusy} onGive=${give} onCancel=${() => setForm('')} />`
      : form === 'edit' ? html`<label>${texts.edited}<textarea rows="4" value=${edit} onInput=${(event) => setEdit(event.currentTarget.value)} /></label>
        <div class="actions"><button class="main" disabled=${isBusy || !edit.trim()} onClick=${() => give({ edit })}>${texts.allowEdited}</button>
          <button onClick=${() => setForm('')}>${texts.cancel}</button></div>`
        : form === 'refuse' ? html`<label>${texts.why}<textarea rows="2" value=${text} onInput=${(event) => setText(event.currentTarget.value)} /></label>
          <div class="actions"><button class="main" disabled=${isBusy} onClick=${() => give({ decision: 'reject', feedback: text })}>${texts.refuse}</button>
            <button class="danger" disabled=${isBusy} onClick=${() => give({ decision: 'stop', feedback: text })}>${texts.stopTurn}</button>
            <button onClick=${() => setForm('')}>${texts.cancel}</button></div>`
          : html`<div class="actions"><button class="main" disabled=${isBusy} onClick=${() => give({})}>${texts.allow}</button>
            <button disabled=${isBusy} onClick=${() => setForm('refuse')}>${texts.refuse}</button>
            ${scopesOf(question).length > 0 && html`<button onClick=${() => setForm('always')}>${texts.always}</button>`}
            ${question.is_editable !== false && html`<button onClick=${() => setForm('edit')}>${texts.edit}</button>`}</div>`}
    <${Problem} error=${error} />
  </article>`;
}

/** @param {{asked: any, found: any, onDismiss?: () => void}} props */
function Answered({ asked, found, onDismiss }) {
  const { given } = found;
  const origin = given.origin || {};
  const who = [origin.device || origin.user || given.by || texts.someone, origin.face && `${texts.via} ${origin.face}`].filter(Boolean).join(' ');
  return html`<article class="answered" role="status"><span class="head"><b>${given.decision === 'allow' ? texts.allowed : texts.refused}, ${texts.answeredBy} ${who}</b>
    ${onDismiss && html`<button class="small" onClick=${onDismiss}>${texts.dismiss}</button>`}</span>
    <span class="quiet">${clock(found.time_us)} · ${asked.question.tool} · ${shown(asked.question).slice(0, 200)}${given.feedback ? ` · “${given.feedback}”` : ''}</span></article>`;
}

const keyOf = (asked) => `${asked.session}/${asked.question.call}`;

/** Questions that were here and are answered now, with who did. @param {any[]} questions */
function useAnswered(questions) {
  const before = useRef(/** @type {any[]} */ ([]));
  const [answered, setAnswered] = useState(/** @type {{asked: any, found: any}[]} */ ([]));
  useEffect(() => {
    const now = new Set(questions.map(keyOf));
    const gone = before.current.filter((asked) => !now.has(keyOf(asked)));
    before.current = questions;
    for (const asked of gone) {
      get(`/sessions/${asked.session}/answered?call=${encodeURIComponent(asked.question.call)}`)
        .then((found) => found && setAnswered((all) => [{ asked, found }, ...all.filter((each) => keyOf(each.asked) !== keyOf(asked))].slice(0, 20)), () => {});
    }
  }, [questions]);
  return { answered, dismiss: (asked) => setAnswered((all) => all.filter((each) => keyOf(each.asked) !== keyOf(asked))) };
}

/** @param {{questions: any[], mayAnswer: boolean}} props */
export function InboxView({ questions, mayAnswer }) {
  const [chosen, setChosen] = useState(new Set());
  const [why, setWhy] = useState('');
  const { error, isBusy, run } = useDoing();
  const { answered, dismiss } = useAnswered(questions);
  const several = questions.filter((asked) => asked.question.tool !== 'ask');
  const selected = several.filter((asked) => chosen.has(keyOf(asked)));
  const giveAll = (reply) => run(async () => {
    const results = await Promise.allSettled(selected.map((asked) => answer(asked.session, asked.question, reply)));
    setChosen(new Set());
    const failed = results.find((each) => each.status === 'rejected');
    if (failed) throw /** @type {PromiseRejectedResult} */ (failed).reason;
  });
  const toggle = (key) => {
    const next = new Set(chosen);
    if (!next.delete(key)) next.add(key);
    setChosen(next);
  };
  const isAll = selected.length === several.length;
  return html`<main>
    <h1>${texts.inbox}</h1>
    ${!questions.length && html`<${Empty} title=${texts.nothingAsked} help=${texts.nothingAskedHelp} />`}
    ${several.length > 1 && mayAnswer && html`<div class="card batch"><div class="actions">
      <button onClick=${() => setChosen(new Set(isAll ? [] : several.map(keyOf)))}>${isAll ? texts.selectNone : texts.selectAll}</button>
      <span class="quiet">${selected.length} ${texts.selected}</span>
      ${selected.length > 0 && html`<button class="main" disabled=${isBusy} onClick=${() => giveAll({})}>${texts.allowSelected} ${selected.length}</button>
        <button disabled=${isBusy} onClick=${() => giveAll({ decision: 'reject', feedback: why })}>${texts.refuseSelected} ${selected.length}</button>`}</div>
      ${selected.length > 0 && html`<label>${texts.why}<input value=${why} onInput=${(event) => setWhy(event.currentTarget.value)} /></label>`}</div>`}
    <${Problem} error=${error} />
    ${questions.map((asked) => html`<div class="choose" key=${keyOf(asked)}>
      ${several.length > 1 && mayAnswer && asked.question.tool !== 'ask' && html`<input type="checkbox" aria-label=${shown(asked.question).slice(0, 80)}
        checked=${chosen.has(keyOf(asked))} onChange=${() => toggle(keyOf(asked))} />`}
      <${QuestionCard} asked=${asked} mayAnswer=${mayAnswer} />
    </div>`)}
    ${answered.map(({ asked, found }) => html`<${Answered} key=${keyOf(asked)} asked=${asked} found=${found} onDismiss=${() => dismiss(asked)} />`)}
  </main>`;
}
