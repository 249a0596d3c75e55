// The page: who is looking, which view, and one stream of all sessions and questions.
import { render } from './vendor/preact.module.js';
import { useEffect, useRef, useState } from './vendor/hooks.module.js';
import { html, Icon, Problem, useDoing } from './parts.js';
import { ArtifactsView } from './artifacts.js';
import { CostView, StartView } from './forms.js';
import { FleetView } from './fleet.js';
import { MachineView } from './machine.js';
import { enterBy, follow, get, post } from './net.js';
import { InboxView } from './questions.js';
import { SessionView } from './session.js';
import { texts } from './texts.js';

const STATE = 'mainspring-login';

/** What the address brought: a token or a code, which is used once and leaves the address at once. */
async function enter() {
  const came = Object.fromEntries(new URLSearchParams(location.search));
  if (came.state) {
    const state = sessionStorage.getItem(STATE);
    sessionStorage.removeItem(STATE);
    history.replaceState(null, '', '/');
    if (came.state !== state) throw new Error(texts.otherLogin);
    await enterBy('/login/finish', { given: came });
    return;
  }
  const found = /^#(token|pair)=(.+)$/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, '', '/');
  if (found[1] === 'token') await enterBy('/login', { token: found[2] });
  else await enterBy('/pair', { code: found[2], name: deviceName() });
}

function deviceName() {
  const system = /Android|iPhone|iPad|Macintosh|Windows|Linux/.exec(navigator.userAgent);
  return `${system ? system[0] : 'a device'} browser`;
}

function useRoute() {
  const [route, setRoute] = useState(location.hash);
  useEffect(() => {
    const look = () => { setRoute(location.hash); scrollTo(0, 0); };
    addEventListener('hashchange', look);
    return () => removeEventListener('hashchange', look);
  }, []);
  return route;
}

function useFleet() {
  const [fleet, setFleet] = useState({ rows: new Map(), questions: /** @type {any[]} */ ([]) });
  const [isOpen, setOpen] = useState(true);
  const isFirst = useRef(true); // the first frame of a stream has everything, and what it has not is gone
  useEffect(() => follow(() => '/stream', {
    fleet: (now) => {
      const isAll = isFirst.current;
      isFirst.current = false;
      setFleet((before) => {
        const rows = new Map(isAll ? [] : before.rows);
        for (const id of now.gone) rows.delete(id);
        for (const row of now.rows) rows.set(row.id, row);
        return { rows, questions: now.questions || before.questions };
      });
    },
  }, (isNow) => { isFirst.current = isNow; setOpen(isNow); }), []);
  return { ...fleet, isOpen };
}

/** `problem`: why the link that was opened did not do. @param {{onEnter: () => void, problem: any}} props */
function Enter({ onEnter, problem }) {
  const [token, setToken] = useState('');
  const { error, isBusy, run } = useDoing();
  const [issuer, setIssuer] = useState('');
  useEffect(() => { get('/login/issuer').then((found) => setIssuer(found.issuer), () => {}); }, []);
  const leaveFor = async () => {
    const { address, state } = await post('/login/begin');
    sessionStorage.setItem(STATE, state);
    location.assign(address);
  };
  return html`<main class="enter"><h1>${texts.enterTitle}</h1>
    ${issuer && html`<p><button class="main" disabled=${isBusy} onClick=${() => run(leaveFor)}>${texts.logInAt(issuer)}</button></p>`}
    <p>${texts.enterHelp}</p>
    <form onSubmit=${(event) => {
      event.preventDefault();
      run(async () => { await enterBy('/login', { token: token.trim() }); onEnter(); });
    }}>
      <label>${texts.token}<input type="password" autocomplete="off" value=${token}
        onInput=${(event) => setToken(event.currentTarget.value)} /></label>
      <button class="main" disabled=${isBusy || !token.trim()}>${texts.enter}</button>
      <${Problem} error=${error || (isBusy ? null : problem)} />
    </form></main>`;
}

/** @param {{me: any, onLeave: () => void}} props */
function Inside({ me, onLeave }) {
  const route = useRoute();
  const { rows, questions, isOpen } = useFleet();
  const listed = [...rows.values()].sort((one, other) => other.updated_us - one.updated_us);
  const [, session, view] = /^#\/s\/(\w+)\/?(.*)$/.exec(route) || [];
  const maySteer = me.role === 'steer' || me.role === 'owner';
  const links = [['#/', 'sessions'], ['#/inbox', 'inbox'], ...(maySteer ? [['#/new', 'start']] : []), ['#/artifacts', 'artifacts'], ['#/cost', 'cost'], ['#/machine', 'machine']];
  const isInstallable = useInstallable();
  const here = session ? '#/' : route.startsWith('#/machine') ? '#/machine' : route || '#/';
  useEffect(() => { document.title = questions.length ? `(${questions.length}) ${texts.title}` : texts.title; }, [questions.length]);
  const shown = session
    ? html`<${SessionView} key=${session} session=${session} view=${view || ''} rows=${rows} me=${me}
        questions=${questions.filter((asked) => asked.session === session)} />`
    : route === '#/inbox' ? html`<${InboxView} questions=${questions} mayAnswer=${me.role !== 'watch'} />`
      : route === '#/new' && maySteer ? html`<${StartView} rows=${listed} />`
        : route === '#/artifacts' ? html`<${ArtifactsView} rows=${rows} />`
          : route === '#/cost' ? html`<${CostView} rows=${rows} />`
            : here === '#/machine' ? html`<${MachineView} route=${route} me=${me} onLeave=${onLeave} isInstallable=${isInstallable} />`
              : html`<${FleetView} rows=${listed} all=${rows} questions=${questions} />`;
  return html`<header><div class="top"><a class="brand" href="#/"><img src="/page/icon.svg" alt="" width="24" height="24" />${texts.title}</a>
    <nav class="main-nav" aria-label=${texts.title}>${links.map(([to, name]) => html`
      <a key=${to} href=${to} aria-current=${here === to ? 'page' : null}><${Icon} name=${name} /><span>${texts[name]}</span>
        ${name === 'inbox' && questions.length > 0 && html`<span class="count">${questions.length}</span>`}</a>`)}
    </nav></div></header>
    ${!isOpen && html`<p class="problem" role="status">${texts.offline}</p>`}
    ${shown}`;
}

/** Whether this page can be installed: with a service worker, which needs loopback or a trusted certificate. */
function useInstallable() {
  const [isInstallable, setInstallable] = useState(/** @type {boolean | null} */ (null));
  useEffect(() => {
    if (!isSecureContext || !('serviceWorker' in navigator)) setInstallable(false);
    else navigator.serviceWorker.register('/sw.js').then(() => setInstallable(true), () => setInstallable(false));
  }, []);
  return isInstallable;
}

function App() {
  const [me, setMe] = useState(/** @type {any} */ (undefined));
  const look = async () => {
    try {
      setMe(await get('/about'));
    } catch {
      setMe(null);
    }
  };
  const [problem, setProblem] = useState(/** @type {any} */ (null));
  useEffect(() => { enter().catch(setProblem).then(look); }, []);
  if (me === undefined) return html`<main class="enter"><p>…</p></main>`;
  return me ? html`<${Inside} me=${me} onLeave=${() => setMe(null)} />` : html`<${Enter} onEnter=${look} problem=${problem} />`;
}

const root = /** @type {HTMLElement} */ (document.getElementById('app'));
root.replaceChildren();
render(html`<${App} />`, root);
