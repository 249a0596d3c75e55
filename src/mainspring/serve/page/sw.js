// Keeps the files of the page, so that an installed app opens without the server and says that it is away.
// Nothing of the API is ever kept.
const CACHE = 'mainspring-page';
const isPage = (url) => url.origin === self.location.origin && (url.pathname === '/' || url.pathname.startsWith('/page/'));

self.addEventListener('install', () => self.skipWaiting());
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()));
// What arrives was encrypted for this browser; a later message of the same id replaces the earlier one.
self.addEventListener('push', (event) => {
  const told = event.data ? event.data.json() : { title: 'mainspring', text: '' };
  event.waitUntil(self.registration.showNotification(told.title, { body: told.text, tag: told.id, icon: '/page/icon.svg', data: told.link || '/' }));
});
self.addEventListener('notificationclick', (event) => {
  event.notification.close();
  event.waitUntil(self.clients.openWindow(event.notification.data));
});
self.addEventListener('fetch', (event) => {
  if (event.request.method !== 'GET' || !isPage(new URL(event.request.url))) return;
  event.respondWith((async () => {
    const cache = await caches.open(CACHE);
    try {
      const answer = await fetch(event.request);
      if (answer.ok) await cache.put(event.request, answer.clone());
      return answer;
    } catch (problem) {
      const kept = await cache.match(event.request);
      if (kept) return kept;
      throw problem;
    }
  })());
});
