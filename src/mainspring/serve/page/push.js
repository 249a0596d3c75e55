// Notifications that this browser gets by itself, also while the page is closed.
import { useEffect, useState } from './vendor/hooks.module.js';
import { html, Problem, useData, useDoing } from './parts.js';
import { post } from './net.js';
import { texts } from './texts.js';

/** @param {string} text */
const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (each) => each.charCodeAt(0));

/** @param {{isInstallable: boolean | null, me: any}} props */
export function PushChoice({ isInstallable, me }) {
  const { data: state } = useData('/push');
  const [found, setFound] = useState(/** @type {PushSubscription | null} */ (null));
  const { error, isBusy, run } = useDoing();
  useEffect(() => {
    if (isInstallable && 'PushManager' in window) navigator.serviceWorker.ready.then((worker) => worker.pushManager.getSubscription()).then(setFound, () => {});
  }, [isInstallable]);
  if (!state || !state.channels.length || isInstallable === null || me.role === 'watch') return null;
  if (!state.key || !isInstallable || !('PushManager' in window)) return html`<p class="quiet">${state.key ? texts.pushNot : texts.pushExtra}</p>`;
  const begin = () => run(async () => {
    const worker = await navigator.serviceWorker.ready;
    const made = await worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytes(state.key) });
    const { endpoint, keys } = made.toJSON();
    await post('/push', { endpoint, p256dh: keys && keys.p256dh, auth: keys && keys.auth });
    setFound(made);
  });
  const end = () => run(async () => {
    if (!found) return;
    await post('/push/end', { endpoint: found.endpoint });
    await found.unsubscribe();
    setFound(null);
  });
  return html`<p><button disabled=${isBusy} onClick=${found ? end : begin}>${found ? texts.pushEnd : texts.pushBegin}</button></p><${Problem} error=${error} />`;
}
