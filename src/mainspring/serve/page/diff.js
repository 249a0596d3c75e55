// Diffs of files: unified, or side by side.
import { useState } from './vendor/hooks.module.js';
import { Choice, html } from './parts.js';
import { texts } from './texts.js';

const MOST = 2000;
const toneOf = (line) => (line[0] === '+' ? 'plus' : line[0] === '-' ? 'minus' : line[0] === '@' ? 'at' : '');

/** Rows of two cells: what went away beside what came in its place. @param {string[]} lines */
export function pairs(lines) {
  const rows = /** @type {[string | null, string | null][]} */ ([]);
  let gone = /** @type {string[]} */ ([]);
  let come = /** @type {string[]} */ ([]);
  const flush = () => {
    for (let place = 0; place < Math.max(gone.length, come.length); place += 1) rows.push([gone[place] ?? null, come[place] ?? null]);
    gone = []; come = [];
  };
  for (const line of lines) {
    if (line[0] === '-') gone.push(line);
    else if (line[0] === '+') come.push(line);
    else { flush(); rows.push([line, line]); }
  }
  flush();
  return rows;
}

/** @param {{lines: string[], view: string}} props */
export function Diff({ lines, view }) {
  const all = lines.filter((line) => !/^(---|\+\+\+) /.test(line));
  const shown = all.slice(0, MOST).map((line) => line.replace(/\n$/, ''));
  const more = all.length > MOST && html`<p class="quiet">${(all.length - MOST).toLocaleString('en')} ${texts.moreLines}</p>`;
  if (!shown.length) return html`<p class="quiet">${texts.binary}</p>`;
  if (view === 'split') {
    return html`<div class="scroll diff split" tabindex="0"><table><tbody>${pairs(shown).map(([one, other], place) => html`<tr key=${place}>
      ${one !== null && one[0] === '@' ? html`<td class="at" colspan="2">${one}</td>` : html`
        <td class=${one === null ? 'gap' : toneOf(one)}>${one === null ? '' : one.slice(1)}</td>
        <td class=${other === null ? 'gap' : toneOf(other)}>${other === null ? '' : other.slice(1)}</td>`}</tr>`)}</tbody></table></div>${more}`;
  }
  return html`<pre class="diff" tabindex="0">${shown.map((line, place) => html`<span key=${place} class=${toneOf(line)}>${`${line}\n`}</span>`)}</pre>${more}`;
}

/** Several changed files, with one choice of how. @param {{files: {path: string, kind?: string, lines: string[], extra?: any}[]}} props */
export function Diffs({ files }) {
  const [view, setView] = useState(innerWidth > 900 ? 'split' : 'unified');
  return html`<div><div class="bar end"><${Choice} names=${['unified', 'split']} value=${view} onValue=${setView} label=${texts.changes} /></div>
    ${files.map((file, place) => html`<details class="file" open=${place < 20} key=${place}>
      <summary><code>${file.path}</code> ${file.kind && html`<span class="quiet">${file.kind}</span>`}
        <span class="counts"><span class="plus">+${file.lines.filter((line) => /^\+(?!\+\+ )/.test(line)).length}</span>${' '}
          <span class="minus">−${file.lines.filter((line) => /^-(?!-- )/.test(line)).length}</span></span></summary>
      <${Diff} lines=${file.lines} view=${view} />${file.extra}
    </details>`)}</div>`;
}
