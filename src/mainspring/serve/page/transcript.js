// What happened in a session, as it happens. At most 300 rows are in the document, wherever one scrolls.
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from './vendor/hooks.module.js';
import { Folded, html, localTimes, Markdown, Problem, useDoing } from './parts.js';
import { follow, get, picture } from './net.js';
import { texts } from './texts.js';

const PAGE = 10;
const MOST = 120;
const NEAR = 120;

/** The first line of an output that says more than its title. @param {string} text */
const snippet = (text) => (text.split('\n').find((line) => line.trim() && !/^(exit code \d+|std(out|err):)$/.test(line)) || '').trim().slice(0, 120);

/** @param {{blob: any, session: string}} props */
function Picture({ blob, session }) {
  const [url, setUrl] = useState('');
  useEffect(() => {
    const found = picture(`/sessions/${session}/blob?sha256=${blob.sha256}&size=${blob.size}`, blob.media_type);
    found.then(setUrl, () => {});
    return () => { found.then((made) => URL.revokeObjectURL(made), () => {}); };
  }, [blob.sha256]);
  return url && html`<img class="picture" alt="" src=${url} />`;
}

/** @param {{part: any, whole: () => Promise<string>, session: string}} props */
function PartView({ part, whole, session }) {
  const pictures = (part.pictures || []).map((blob) => html`<${Picture} key=${blob.sha256} blob=${blob} session=${session} />`);
  switch (part.kind) {
    case 'user':
      return html`<div class="part user"><${Markdown} tree=${part.tree} />
        ${part.text && html`<p class="quiet">${part.text}</p>`}${pictures}</div>`;
    case 'text':
      return html`<div class="part text"><${Markdown} tree=${part.tree} /></div>`;
    case 'thinking':
      return html`<${Folded} title=${part.title} text=${part.text} isCut=${part.is_cut} whole=${whole} class="part thinking" />`;
    case 'call':
      return html`<${Folded} title=${html`<code>${part.title}</code>`} text=${part.text} isCut=${part.is_cut} whole=${whole}
        class="part call" />`;
    case 'result':
    case 'files':
      return html`<div><${Folded} title=${html`${part.title}${part.kind === 'result' && part.text
        ? html`<span class="snippet">${snippet(part.text)}</span>` : ''}`} text=${part.text} isCut=${part.is_cut} whole=${whole}
        class=${`part ${part.kind} ${part.tone || ''}`} />${pictures}</div>`;
    default:
      return html`<div class=${`part ${part.kind} ${part.tone || ''}`}>${localTimes(part.title || '')}</div>`;
  }
}

/** One event; drawn once, since what happened does not change. @param {{row: any, session: string}} props */
function Row({ row, session }) {
  return useMemo(() => {
    const whole = (place) => async () => (await get(`/sessions/${session}/whole?seq=${row.seq}`)).parts[place].text;
    return html`<li id=${`e${row.seq}`}><a class="seq" href=${`#/s/${session}/back/${row.seq}`} title=${`${row.time} · ${texts.backTo} ${row.seq}`}
      aria-label=${`${texts.backTo} ${row.seq}`}>${row.seq}</a>
      <div class="parts">${row.parts.map((part, place) => html`<${PartView} key=${place} part=${part} whole=${whole(place)} session=${session} />`)}</div></li>`;
  }, [row]);
}

/** The rows that are shown, and what is being written. One state, so that a stream cannot tear it. */
function reduce(state, [what, value]) {
  switch (what) {
    case 'row': {
      const { row, isNear } = value;
      if (row.seq <= state.last) return state;
      const after = { ...state, last: row.seq };
      if (row.parts.some((part) => part.kind === 'text' || part.kind === 'end')) after.draft = '';
      if (!state.isAtEnd || !row.parts.length) return after;
      if (state.rows.length < MOST) return { ...after, rows: [...state.rows, row] };
      if (!isNear) return { ...after, isAtEnd: false };
      return { ...after, rows: [...state.rows.slice(PAGE), row], first: state.rows[PAGE].seq };
    }
    case 'delta': {
      const part = value.parts[0];
      if (part && part.kind === 'text') return { ...state, draft: state.draft + part.text };
      return part && part.kind === 'line' ? { ...state, status: part.text } : state;
    }
    case 'page':
      return { ...state, ...value, last: Math.max(state.last, value.last || 0) };
    default:
      return state;
  }
}

/** The rows with something to show before an event, at least a page of them. @param {string} session @param {number} before */
async function earlierRows(session, before) {
  let rows = /** @type {any[]} */ ([]);
  let from = before;
  while (rows.length < PAGE && from > 1) {
    const found = await get(`/sessions/${session}/view?before=${from}&limit=${PAGE * 2}`);
    if (!found.rows.length) return { rows, from: 1 };
    rows = [...found.rows.filter((row) => row.parts.length), ...rows];
    from = found.rows[0].seq;
  }
  return { rows, from };
}

/** The rows after an event. @param {string} session @param {number} after */
async function laterRows(session, after) {
  let rows = /** @type {any[]} */ ([]);
  let at = after;
  while (rows.length < PAGE) {
    const found = await get(`/sessions/${session}/view?after=${at}&limit=${PAGE * 2}`);
    if (!found.rows.length) return { rows, isAtEnd: true };
    rows = [...rows, ...found.rows.filter((row) => row.parts.length)];
    at = found.rows[found.rows.length - 1].seq;
  }
  return { rows, isAtEnd: false };
}

/** Keeps a row where it is on the screen while others come and go around it. */
function useAnchor() {
  const kept = useRef(/** @type {{id: string, top: number} | null} */ (null));
  const keep = () => {
    const found = [...document.querySelectorAll('ol.rows > li')].find((row) => row.getBoundingClientRect().bottom > 60);
    kept.current = found ? { id: found.id, top: found.getBoundingClientRect().top } : null;
  };
  useLayoutEffect(() => {
    const anchor = kept.current;
    kept.current = null;
    const row = anchor && document.getElementById(anchor.id);
    if (anchor && row) scrollBy(0, row.getBoundingClientRect().top - anchor.top);
  });
  return keep;
}

/** Calls when an element comes near the screen. @param {any} element @param {() => void} onNear @param {any} version */
function useNear(element, onNear, version) {
  useEffect(() => {
    if (!element.current) return undefined;
    const watch = new IntersectionObserver((seen) => { if (seen.some((each) => each.isIntersecting)) onNear(); }, { rootMargin: '600px' });
    watch.observe(element.current);
    return () => watch.disconnect();
  }, [version]);
}

/** `onMissing` is called when there is no such session. @param {{session: string, onMissing: () => void, children?: any}} props */
export function Transcript({ session, onMissing, children }) {
  const [state, dispatch] = useReducer(reduce, { rows: [], last: 0, first: 1, isAtEnd: true, draft: '', status: '' });
  const [isOpen, setOpen] = useState(true);
  const { error, run } = useDoing();
  const last = useRef(0);
  const isNear = useRef(true);
  const isLoading = useRef(false);
  const top = useRef(/** @type {any} */ (null));
  const bottom = useRef(/** @type {any} */ (null));
  const end = useRef(/** @type {any} */ (null));
  const isAtEnd = useRef(true);
  const keep = useAnchor();
  last.current = Math.max(last.current, state.last);
  useEffect(() => {
    let leave = () => {};
    let isGone = false;
    const begin = async () => {
      const row = await get(`/sessions/${session}`).catch((problem) => { if (problem.status === 404) onMissing(); throw problem; });
      const { rows, from } = await earlierRows(session, row.events + 1);
      if (isGone) return;
      last.current = row.events;
      dispatch(['page', { rows: rows.slice(-MOST), last: row.events, first: from, isAtEnd: true }]);
      leave = follow(() => `/sessions/${session}/stream?view=1&after=${last.current}`, {
        message: (data) => dispatch(['row', { row: data, isNear: isNear.current }]), delta: (data) => dispatch(['delta', data]),
      }, setOpen);
    };
    run(begin);
    return () => { isGone = true; leave(); };
  }, [session]);
  useEffect(() => {
    const look = () => { isNear.current = innerHeight + scrollY > document.documentElement.scrollHeight - NEAR; };
    addEventListener('scroll', look, { passive: true });
    return () => removeEventListener('scroll', look);
  }, []);
  isAtEnd.current = state.isAtEnd;
  const toEnd = () => { if (isNear.current && isAtEnd.current && end.current) end.current.scrollIntoView({ block: 'end' }); };
  useLayoutEffect(toEnd, [state.rows, state.draft, children]);
  useEffect(() => { // what stands around the rows grows by itself: a plan, a question, a wait
    const watch = new ResizeObserver(toEnd);
    watch.observe(document.body);
    return () => watch.disconnect();
  }, []);
  /** @param {() => Promise<object>} find */
  const load = (find) => run(async () => {
    if (isLoading.current) return;
    isLoading.current = true;
    try {
      const found = await find();
      isNear.current = false;
      keep();
      dispatch(['page', found]);
    } finally {
      isLoading.current = false;
    }
  });
  const earlier = () => state.first > 1 && state.rows.length > 0 && load(async () => {
    const found = await earlierRows(session, state.rows[0].seq);
    const all = [...found.rows, ...state.rows];
    return { rows: all.slice(0, MOST), first: found.from, isAtEnd: all.length <= MOST && state.isAtEnd };
  });
  const later = () => !state.isAtEnd && state.rows.length > 0 && load(async () => {
    const found = await laterRows(session, state.rows[state.rows.length - 1].seq);
    const all = [...state.rows, ...found.rows];
    const rows = all.slice(-MOST);
    return { rows, first: all.length > MOST ? rows[0].seq : state.first, isAtEnd: found.isAtEnd };
  });
  const newest = () => run(async () => {
    const { rows, from } = await earlierRows(session, last.current + 1);
    isNear.current = true;
    dispatch(['page', { rows: rows.slice(-MOST), first: from, isAtEnd: true }]);
  });
  useNear(top, earlier, state.rows);
  useNear(bottom, later, state.rows);
  return html`<section>
    ${!isOpen && html`<p class="problem" role="status">${texts.offline}</p>`}
    <${Problem} error=${error} />
    ${state.first > 1 && state.rows.length > 0 && html`<button class="small" ref=${top} onClick=${earlier}>${texts.earlier}</button>`}
    <div role="log" aria-label=${texts.transcript}><ol class="rows">${state.rows.map((each) => html`<${Row} key=${each.seq} row=${each} session=${session} />`)}</ol></div>
    ${!state.isAtEnd && html`<div ref=${bottom}></div><button class="newest main" onClick=${newest}>${texts.newest} ↓</button>`}
    ${state.draft && html`<div class="part draft"><pre>${state.draft}</pre></div>`}
    ${children}
    <div ref=${end}></div>
  </section>`;
}
