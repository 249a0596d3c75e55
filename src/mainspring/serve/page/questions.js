// What waits for a person, and the answers.
import { useState } from './vendor/hooks.module.js';
import { Folded, html, Problem, useDoing } from './parts.js';
import { post } from './net.js';
import { texts } from './texts.js';

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

/** @param {{asked: any, mayAnswer: boolean}} props */
export function QuestionCard({ asked, mayAnswer }) {
  const { session, question } = asked;
  const { error, isBusy, run } = useDoing();
  const [text, setText] = useState('');
  const [edit, setEdit] = useState(/** @type {string | null} */ (null));
  const isAsk = question.tool === 'ask';
  const give = (reply) => run(() => answer(session, question, reply));
  return html`<article class="question">
    <p class="quiet"><a href=${`#/s/${session}`}>${asked.title || session}</a> · ${question.tool}
      ${question.reason ? ` · ${question.reason}` : ''}</p>
    <pre class="asked" tabindex="0">${shown(question)}</pre>
    ${!isAsk && html`<${Folded} title=${texts.arguments} text=${question.arguments} class="fold" />`}
    ${(question.scripts || []).map((script) => html`
      <${Folded} key=${script.path} title=${script.path} text=${script.text} class="fold" />`)}
    ${mayAnswer ? html`
      ${edit !== null && html`<label>${texts.edited}
        <textarea rows="3" value=${edit} onInput=${(event) => setEdit(event.currentTarget.value)} /></label>`}
      <label>${isAsk ? texts.answer : texts.why}
        <input value=${text} onInput=${(event) => setText(event.currentTarget.value)} /></label>
      <div class="actions">
        ${isAsk ? html`
          <button class="main" disabled=${isBusy || !text.trim()}
            onClick=${() => give({ feedback: text, is_said: true })}>${texts.answer}</button>` : html`
          <button class="main" disabled=${isBusy}
            onClick=${() => give(edit === null ? {} : { edit })}>${texts.allow}</button>
          ${edit === null && (question.scopes || []).includes('session') && html`<button disabled=${isBusy}
            onClick=${() => give({ scope: 'session' })}>${texts.allowSession}</button>`}
          ${edit === null && (question.scopes || []).includes('project') && html`<button disabled=${isBusy}
            onClick=${() => give({ scope: 'project' })}>${texts.allowProject}</button>`}
          ${question.is_editable !== false && edit === null && html`<button
            onClick=${() => setEdit(shown(question))}>${texts.edit}</button>`}`}
        <button disabled=${isBusy} onClick=${() => give({ decision: 'reject', feedback: text })}>${texts.refuse}</button>
        <button class="danger" disabled=${isBusy} onClick=${() => give({ decision: 'stop', feedback: text })}>
          ${texts.stopTurn}</button>
      </div>` : html`<p class="quiet">${texts.watchOnly}</p>`}
    <${Problem} error=${error} />
  </article>`;
}

/** @param {{questions: any[], mayAnswer: boolean}} props */
export function InboxView({ questions, mayAnswer }) {
  const [chosen, setChosen] = useState(new Set());
  const { error, isBusy, run } = useDoing();
  const keyOf = (asked) => `${asked.session}/${asked.question.call}`;
  const selected = questions.filter((asked) => chosen.has(keyOf(asked)));
  const giveAll = (reply) => run(async () => {
    for (const asked of selected) await answer(asked.session, asked.question, reply);
    setChosen(new Set());
  });
  const toggle = (key) => {
    const next = new Set(chosen);
    if (!next.delete(key)) next.add(key);
    setChosen(next);
  };
  return html`<main>
    <h1>${texts.inbox}</h1>
    ${!questions.length && html`<p class="quiet">${texts.nothingAsked}</p>`}
    ${questions.length > 1 && mayAnswer && html`<div class="bar">
      <button onClick=${() => setChosen(new Set(questions.map(keyOf)))}>${texts.selectAll}</button>
      <button class="main" disabled=${isBusy || !selected.length} onClick=${() => giveAll({})}>
        ${texts.allowSelected} (${selected.length})</button>
      <button disabled=${isBusy || !selected.length} onClick=${() => giveAll({ decision: 'reject' })}>
        ${texts.refuseSelected}</button>
    </div>`}
    <${Problem} error=${error} />
    ${questions.map((asked) => html`<div class="choose" key=${keyOf(asked)}>
      ${questions.length > 1 && mayAnswer && html`<input type="checkbox" aria-label=${asked.question.call}
        checked=${chosen.has(keyOf(asked))} onChange=${() => toggle(keyOf(asked))} />`}
      <${QuestionCard} asked=${asked} mayAnswer=${mayAnswer} />
    </div>`)}
  </main>`;
}
