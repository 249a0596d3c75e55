// A real issuer of OpenID Connect on loopback, for tests: its address is the first line that it prints. Whatever name
// somebody logs in with becomes their address; people whose name begins with "e" are in the group engineers.
import { once } from 'node:events';
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const server = createServer();
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const issuer = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'mainspring',
      token_endpoint_auth_method: 'none',
      application_type: 'native',
      redirect_uris: ['http://127.0.0.1/callback', 'http://127.0.0.1/'],
      grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
    },
  ],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['groups'] },
  conformIdTokenClaims: false,
  features: {
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
  },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({
      sub: id,
      email: `${id}@example.org`,
      email_verified: id !== 'mallory',
      groups: id.startsWith('e') ? ['engineers'] : [],
    }),
  }),
  cookies: { keys: ['only a test'] },
  // A renewed ID token lasts longer, so that a test need not wait for the end of the first one.
  ttl: {
    IdToken: (ctx) => (ctx.oidc.params.grant_type === 'refresh_token' ? 7200 : 3600),
    ...{ AccessToken: 600, Grant: 600, Interaction: 600, Session: 600 },
  },
});
server.on('request', provider.callback());
console.log(issuer);
process.stdin.on('end', () => process.exit(0)).resume(); // ends with whoever started it
