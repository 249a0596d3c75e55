// Drawings by hand, as SVG: metrics with their noise, claims and what they stand on, bars.
import { html } from './parts.js';
import { texts } from './texts.js';

const WIDTH = Math.min(640, Math.max(300, innerWidth - 60));
const HEIGHT = WIDTH > 500 ? 220 : 190;
const EDGE = { left: 44, right: 16, top: 14, bottom: 28 };

/** @param {number} value */
export const figure = (value) => (Number.isInteger(value) ? value.toLocaleString('en') : Number(value.toPrecision(4)).toString());

/** Three to five round values between two. @param {number} low @param {number} high */
export function ticks(low, high) {
  const range = high - low || 1;
  const base = 10 ** Math.floor(Math.log10(range / 3));
  const step = [1, 2, 5, 10].map((each) => each * base).find((each) => range / each <= 5) || base * 10;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

/** @param {{metric: any, target?: any}} props */
export function MetricPlot({ metric, target }) {
  const rows = metric.rows.filter((row) => !row.is_void);
  if (!rows.length) return null;
  const band = (row) => Math.max(row.noise || 0, row.spread || 0);
  const values = rows.flatMap((row) => [row.mean - band(row), row.mean + band(row)]).concat(target ? [target.value] : []);
  let low = Math.min(...values);
  let high = Math.max(...values);
  const pad = (high - low || Math.abs(high) || 1) * 0.08;
  low -= pad; high += pad;
  const first = rows[0].iteration;
  const last = rows[rows.length - 1].iteration;
  const x = (iteration) => (last === first ? (WIDTH + EDGE.left - EDGE.right) / 2
    : EDGE.left + ((iteration - first) / (last - first)) * (WIDTH - EDGE.left - EDGE.right));
  const y = (value) => EDGE.top + ((high - value) / (high - low)) * (HEIGHT - EDGE.top - EDGE.bottom);
  const points = (list) => list.map(([one, other]) => `${one.toFixed(1)},${other.toFixed(1)}`).join(' ');
  const outline = [...rows.map((row) => [x(row.iteration), y(row.mean + band(row))]),
    ...[...rows].reverse().map((row) => [x(row.iteration), y(row.mean - band(row))])];
  const title = `${metric.name}: ${rows.map((row) => figure(row.mean)).join(', ')}`;
  // beside the end of the curve that is further away
  const isFirstFar = target && Math.abs(rows[0].mean - target.value) > Math.abs(rows[rows.length - 1].mean - target.value);
  const marks = last - first > 12 ? ticks(first, last).filter(Number.isInteger) : rows.map((row) => row.iteration);
  return html`<svg class="plot" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${title}>
    ${ticks(low, high).map((at) => html`<g key=${at}><line class="grid" x1=${EDGE.left} x2=${WIDTH - EDGE.right} y1=${y(at)} y2=${y(at)} />
      <text x=${EDGE.left - 8} y=${y(at) + 4} text-anchor="end">${figure(at)}</text></g>`)}
    ${[...new Set(marks)].map((at) => html`<text key=${`x${at}`} x=${x(at)} y=${HEIGHT - 8} text-anchor="middle">${at}</text>`)}
    ${rows.length > 1 && html`<polygon class="band" points=${points(outline)} />`}
    ${target && html`<g><line class="target-line" x1=${EDGE.left} x2=${WIDTH - EDGE.right} y1=${y(target.value)} y2=${y(target.value)} />
      <text class="target-text" x=${isFirstFar ? EDGE.left + 4 : WIDTH - EDGE.right} y=${y(target.value) - 5} text-anchor=${isFirstFar ? 'start' : 'end'}>${texts.target} ${target.relation} ${figure(target.value)}</text></g>`}
    <polyline class="curve" points=${points(rows.map((row) => [x(row.iteration), y(row.mean)]))} />
    ${rows.map((row) => html`<g key=${`p${row.iteration}`}>
      <line class="whisker" x1=${x(row.iteration)} x2=${x(row.iteration)} y1=${y(row.mean - band(row))} y2=${y(row.mean + band(row))} />
      <circle class=${row.iteration === metric.best_iteration ? 'point best' : 'point'} cx=${x(row.iteration)} cy=${y(row.mean)}
        r=${row.iteration === metric.best_iteration ? 6 : 4} /></g>`)}
  </svg>`;
}

/** Claims from left to right by what they stand on. @param {{claims: any[]}} props */
export function ClaimGraph({ claims }) {
  const known = new Map(claims.map((claim) => [claim.name, claim]));
  const depths = new Map();
  const depth = (name, seen) => {
    if (depths.has(name)) return depths.get(name);
    if (seen.has(name)) return 0;
    const inner = new Set(seen).add(name);
    const found = Math.max(-1, ...(known.get(name).depends_on || []).filter((each) => known.has(each)).map((each) => depth(each, inner))) + 1;
    depths.set(name, found);
    return found;
  };
  const columns = /** @type {string[][]} */ ([]);
  for (const claim of claims) (columns[depth(claim.name, new Set())] ||= []).push(claim.name);
  const tall = Math.max(...columns.map((column) => (column || []).length));
  const width = columns.length * 150 + 20;
  const height = tall * 48 + 20;
  /** @type {Map<string, number[]>} */
  const places = new Map(columns.flatMap((column, across) => (column || []).map((name, down) => /** @type {[string, number[]]} */ ([name,
    [across * 150 + 20, (down + 0.5) * (height / column.length)]]))));
  const placeOf = (name) => places.get(name) || [0, 0];
  return html`<div class="scroll" tabindex="0"><svg class="graph" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img"
    aria-label=${`${texts.claims}: ${claims.map((claim) => `${claim.name} ${claim.status}`).join(', ')}`}>
    ${claims.flatMap((claim) => (claim.depends_on || []).filter((each) => places.has(each)).map((each) => {
      const [x1, y1] = placeOf(each);
      const [x2, y2] = placeOf(claim.name);
      return html`<path key=${`${each}-${claim.name}`} class="edge" d=${`M${x1 + 110} ${y1} C${x1 + 130} ${y1} ${x2 - 20} ${y2} ${x2} ${y2}`} />`;
    }))}
    ${claims.map((claim) => { const [left, top] = placeOf(claim.name); return html`<g key=${claim.name} class=${`node ${claimTone(claim.status)}`}>
      <rect x=${left} y=${top - 15} width="110" height="30" rx="15" /><text x=${left + 55} y=${top + 5} text-anchor="middle">${claim.name.length > 13 ? `${claim.name.slice(0, 12)}…` : claim.name}<title>${claim.name}</title></text></g>`; })}
  </svg></div>`;
}

/** @param {string} status */
export const claimTone = (status) => (status === 'proved' ? 'good' : status === 'refuted' ? 'bad' : status === 'open' ? '' : 'doubt');

/** @param {{share: number}} props */
export const Bar = ({ share }) => html`<svg class="share" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="6" />
  <rect class="fill" width=${Math.max(0, Math.min(100, share * 100))} height="6" /></svg>`;

/** @param {{rows: {key: string, value: number}[], label: string}} props */
export function Days({ rows, label }) {
  const shown = rows.slice(-30);
  const most = Math.max(...shown.map((row) => row.value)) || 1;
  const wide = Math.min(60, 600 / shown.length);
  return html`<svg class="plot days" viewBox="0 0 620 150" role="img" aria-label=${label}>
    ${shown.map((row, place) => html`<g key=${row.key}><rect class="fill" x=${10 + place * wide + wide * 0.12} width=${wide * 0.76} y=${20 + 100 * (1 - row.value / most)} height=${Math.max(1, 100 * (row.value / most))} rx="3" />
      ${wide >= 40 && html`<text x=${10 + (place + 0.5) * wide} y=${14 + 100 * (1 - row.value / most)} text-anchor="middle">${row.value < 0.01 ? row.value.toFixed(4) : row.value.toFixed(2)}</text>
        <text x=${10 + (place + 0.5) * wide} y="138" text-anchor="middle">${row.key.slice(5)}</text>`}</g>`)}
    <line class="grid" x1="10" x2="610" y1="120" y2="120" /></svg>`;
}
