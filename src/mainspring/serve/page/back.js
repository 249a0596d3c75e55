// Going back to an event: what would change, then a confirmation.
import { useRef, useState } from './vendor/hooks.module.js';
import { Choice, html, Problem, useData, useDoing } from './parts.js';
import { Diffs } from './diff.js';
import { post } from './net.js';
import { texts } from './texts.js';

/** Without `seq` before the last turn. @param {{session: string, seq: string, row: any, maySteer: boolean}} props */
export function BackTab({ session, seq, row, maySteer }) {
  const [scope, setScope] = useState('both');
  const isGoing = useRef(false);  // what it does itself changes nothing that is shown here
  const events = useRef(0);
  if (!isGoing.current) events.current = row && row.events;
  const { data, error } = useData(row ? `/sessions/${session}/back${seq ? `?to_seq=${seq}` : ''}` : '', events.current);
  const doing = useDoing();
  const isFiles = scope !== 'conversation';
  const go = () => doing.run(async () => {
    isGoing.current = true;
    try {
      await post(`/sessions/${session}/back`, { to_seq: data.to_seq, scope });
      location.hash = `#/s/${session}`;
    } catch (problem) {
      isGoing.current = false;
      throw problem;
    }
  });
  const fork = () => doing.run(async () => {
    const made = await post(`/sessions/${session}/fork`, { at: data.to_seq });
    location.hash = `#/s/${made.session}`;
  });
  const files = data ? data.changed.changes || [] : [];
  return html`<section class="back"><h2>${seq ? `${texts.backTo} ${seq}` : texts.undo}</h2><p class="quiet">${texts.backHelp}</p>
    <${Problem} error=${error} />
    <${Choice} names=${['both', 'conversation', 'files']} value=${scope} onValue=${setScope} label=${texts.scope} />
    ${data && scope !== 'files' && html`<h3>${texts.saidAfter}</h3>
      <ul class="cards">${data.said.map((text, place) => html`<li class="card" key=${place}>${text.slice(0, 300)}</li>`)}</ul>
      <p class="quiet">${data.replies} ${texts.repliesAfter}</p>`}
    ${data && isFiles && html`<h3>${texts.filesBack}</h3>
      ${data.conflicts.length > 0 && html`<p class="problem">${texts.conflict} ${data.conflicts.join(', ')}</p>`}
      ${data.lost.length > 0 && html`<p class="quiet">${texts.lost} ${data.lost.join(', ')}</p>`}
      ${!files.length ? html`<p class="quiet">${texts.noFilesBack}</p>`
        : html`<${Diffs} files=${files.map((change, place) => ({ path: change.path, kind: change.kind, lines: data.diffs[place] || [] }))} />`}`}
    ${maySteer ? html`<div class="actions sticky"><button class="main" disabled=${!data || doing.isBusy || (isFiles && data.conflicts.length > 0)} onClick=${go}
        aria-label=${`${texts.confirmBack}: ${texts.backOf[scope]}`}><span>${texts.confirmBack}<span class="rest">: ${texts.backOf[scope]}</span></span></button>
      <button disabled=${!data || doing.isBusy} onClick=${fork}>${texts.forkHere}</button>
      <a class="button" href=${`#/s/${session}`}>${texts.cancel}</a></div>` : html`<p class="quiet">${texts.watchOnly}</p>`}
    <${Problem} error=${doing.error} /></section>`;
}
