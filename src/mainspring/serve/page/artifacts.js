// Outputs that sessions keep: their versions, previews and differences; and a search through all of them.
import { useEffect, useState } from './vendor/hooks.module.js';
import { clock, Empty, html, Markdown, Problem, size, useData, useDoing } from './parts.js';
import { Diff } from './diff.js';
import { download, post } from './net.js';
import { texts } from './texts.js';

const query = (version) => `name=${encodeURIComponent(version.name)}&version=${version.version}`;

/** @param {{block: any, name: string, type: string}} props */
function Block({ block, name, type }) {
  if (type === 'text/x-diff' && block.text) return html`<${Diff} lines=${block.text.split('\n')} view="unified" />`;
  if (block.kind === 'picture') {
    return html`<figure><img class="picture" alt=${block.text ? `${name}, ${block.text}` : name} src=${`data:${block.media_type};base64,${block.data}`} />
      ${block.text && html`<figcaption class="quiet">${block.text}</figcaption>`}</figure>
      ${block.more > 0 && html`<p class="quiet">${block.more.toLocaleString('en')} ${texts.morePages}</p>`}`;
  }
  if (block.kind === 'markdown') return html`<${Markdown} tree=${block.tree || []} />`;
  if (block.kind === 'table') {
    return html`<div class="scroll" tabindex="0"><table><thead><tr>${(block.head || []).map((cell, place) => html`<th scope="col" key=${place}>${cell}</th>`)}</tr></thead>
      <tbody>${(block.rows || []).map((row, place) => html`<tr key=${place}>${row.map((cell, column) => html`<td key=${column}
        class=${/^[-+.\d]+(e[-+]?\d+)?$/i.test(cell) ? 'figure' : ''}>${cell}</td>`)}</tr>`)}</tbody></table></div>
      ${block.more > 0 && html`<p class="quiet">${block.more.toLocaleString('en')} ${texts.moreRows}</p>`}`;
  }
  return html`<pre class=${block.kind} tabindex="0">${block.text || ''}</pre>
    ${block.more > 0 && html`<p class="quiet">${block.more.toLocaleString('en')} ${texts.moreText}</p>`}`;
}

/** @param {{version: any}} props */
export function Preview({ version }) {
  const [isCompared, setCompared] = useState(false);
  const at = `/sessions/${version.session}/kept`;
  const { data, error } = useData(`${at}/preview?${query(version)}`);
  const compared = useData(isCompared ? `${at}/diff?name=${encodeURIComponent(version.name)}&new=${version.version}` : '');
  const doing = useDoing();
  return html`<div class="preview"><${Problem} error=${error || compared.error || doing.error} />
    ${data && !data.blocks.length && html`<p class="quiet">${data.why_not || texts.noPreview}</p>`}
    ${data && data.blocks.map((block, place) => html`<${Block} key=${place} block=${block} name=${version.name} type=${version.blob.media_type} />`)}
    ${isCompared && compared.data && html`<${Diff} lines=${compared.data.lines} view="unified" />`}
    <div class="actions"><button onClick=${() => doing.run(() => download(`${at}/content?${query(version)}`, version.name.split('/').pop()))}>${texts.download}</button>
      ${version.version > 1 && html`<button aria-pressed=${isCompared} onClick=${() => setCompared(!isCompared)}>${texts.compare}</button>`}</div>
  </div>`;
}

/** One name with its versions, the newest shown. @param {{versions: any[], session?: any, line?: string}} props */
function Kept({ versions, session, line }) {
  const [isOpen, setOpen] = useState(false);
  const [chosen, setChosen] = useState(versions.length - 1);
  const version = versions[Math.min(chosen, versions.length - 1)];
  useEffect(() => setChosen(versions.length - 1), [versions.length]);
  return html`<li class="card artifact"><details open=${isOpen} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary><span class="head"><b>${version.name}</b><span class="quiet">${size(version.blob.size)} · ${texts.version} ${version.version}</span></span>
      <span class="quiet line">${version.note || line || version.blob.media_type} · ${clock(version.time_us)}
        ${version.iteration ? ` · ${texts.made} ${version.iteration}` : ''}</span></summary>
    ${isOpen && html`<div>
      ${session && html`<p class="quiet"><a href=${`#/s/${version.session}/artifacts`}>${session.goal || session.title || version.session}</a></p>`}
      ${versions.length > 1 && html`<label class="inline">${texts.version} <select value=${String(chosen)} onChange=${(event) => setChosen(Number(event.currentTarget.value))}>
        ${versions.map((each, place) => html`<option key=${place} value=${String(place)}>${each.version} · ${clock(each.time_us)}</option>`)}</select></label>`}
      <p class="quiet">${version.blob.media_type} · sha256 <code>${version.blob.sha256.slice(0, 16)}</code></p>
      <${Preview} key=${version.version} version=${version} /></div>`}
  </details></li>`;
}

const byName = (versions) => [...versions.reduce((names, each) => names.set(each.name, [...(names.get(each.name) || []), each]), new Map()).values()];

/** @param {{session: string, row: any, maySteer: boolean}} props */
export function SessionArtifacts({ session, row, maySteer }) {
  const [count, setCount] = useState(0);
  const { data, error } = useData(row ? `/sessions/${session}/kept` : '', `${row && row.events}/${count}`);
  const [path, setPath] = useState('');
  const [note, setNote] = useState('');
  const doing = useDoing();
  const keep = () => doing.run(async () => {
    await post(`/sessions/${session}/kept`, { path, note });
    setPath(''); setNote(''); setCount(count + 1);
  });
  return html`<section><${Problem} error=${error} />
    ${data && !data.length && html`<${Empty} title=${texts.noArtifacts} help=${maySteer ? texts.noArtifactsHelp : texts.noArtifactsYet} />`}
    <ul class="cards">${byName(data || []).reverse().map((versions) => html`<${Kept} key=${versions[0].name} versions=${versions} />`)}</ul>
    ${maySteer && html`<form class="card keep" onSubmit=${(event) => { event.preventDefault(); keep(); }}>
      <h2>${texts.keep}</h2><div class="fields"><label>${texts.keepPath}<input value=${path} placeholder="plots/loss.png" onInput=${(event) => setPath(event.currentTarget.value)} /></label>
      <label>${texts.keepNote}<input value=${note} onInput=${(event) => setNote(event.currentTarget.value)} /></label></div>
      <button disabled=${doing.isBusy || !path.trim()}>${texts.keepButton}</button><${Problem} error=${doing.error} /></form>`}
  </section>`;
}

/** @param {{rows: Map<string, any>}} props */
export function ArtifactsView({ rows }) {
  const [words, setWords] = useState('');
  const [asked, setAsked] = useState('');
  useEffect(() => { const timer = setTimeout(() => setAsked(words), 250); return () => clearTimeout(timer); }, [words]);
  const { data, error } = useData(`/kept?words=${encodeURIComponent(asked)}`);
  return html`<main><h1>${texts.artifacts}</h1>
    <div class="bar"><input type="search" aria-label=${texts.searchArtifacts} placeholder=${texts.searchArtifacts} value=${words}
      onInput=${(event) => setWords(event.currentTarget.value)} /></div>
    <${Problem} error=${error} />
    ${data && !data.length && html`<${Empty} title=${asked ? texts.noArtifactsFound : texts.noArtifacts} help=${asked ? texts.otherWords : texts.noArtifactsYet} />`}
    <ul class="cards">${(data || []).slice(0, 200).map((found) => html`<${Kept} key=${`${found.version.session}/${found.version.name}`}
      versions=${[found.version]} session=${rows.get(found.version.session) || {}} line=${found.line} />`)}</ul>
    ${data && data.length > 200 && html`<p class="quiet">${(data.length - 200).toLocaleString('en')} ${texts.notShown}. ${texts.otherWords}</p>`}</main>`;
}
