// An OpenID Connect provider for the checks of single sign-on: node-oidc-provider, which is certified, with users that are
// made up, and with faults on request.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { SignJWT, base64url, decodeJwt, exportJWK, generateKeyPair } from 'jose';
import Provider from 'oidc-provider';

export const CLIENT = { id: 'weir', secret: 'a secret: with 100 % of the signs' };

/** Listens, and serves when `begin` has been called with the panel's address. `users`: names with their groups. */
export async function provider(users) {
  let serving = null;
  const faults = { token: null, answer: null };
  const server = createServer((request, response) => serving(request, response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${server.address().port}`;
  let panel;

  /** Begins with new keys; users and clients are the same. */
  async function rotate(algorithm = 'RS256') {
    const { privateKey } = await generateKeyPair(algorithm, { extractable: true });
    const key = { ...(await exportJWK(privateKey)), use: 'sig', alg: algorithm, kid: `key-${Date.now()}` };
    serving = made(key, privateKey, algorithm);
  }

  function made(key, privateKey, algorithm) {
    const known = new Provider(issuer, {
      jwks: { keys: [key] },
      clients: [{
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        redirect_uris: [`${panel}api/v1/oidc/callback`],
        post_logout_redirect_uris: [panel],
        id_token_signed_response_alg: algorithm,
      }],
      claims: { openid: ['sub'], profile: ['preferred_username', 'groups'] },
      cookies: { keys: ['for tests'] },
      features: {
        devInteractions: { enabled: false },
        rpInitiatedLogout: {
          enabled: true,
          logoutSource: (ctx, form) => {
            ctx.body = `<title>Leave</title>${form}<button form="op.logoutForm" name="logout" value="yes">Leave</button>`;
          },
        },
      },
      interactions: { url: (_, { uid }) => `/interaction/${uid}` },
      // No user has to consent.
      loadExistingGrant: async (ctx) => {
        const grant = new ctx.oidc.provider.Grant({ clientId: CLIENT.id, accountId: ctx.oidc.session.accountId });
        grant.addOIDCScope('openid profile email');
        await grant.save();
        return grant;
      },
      findAccount: (_, id) => ({
        accountId: id,
        claims: () => ({ sub: id, preferred_username: id, groups: users[id] ?? [] }),
      }),
      pkce: { required: () => true },
      ttl: { Session: 600, Interaction: 600, Grant: 600 },
    });
    known.use(async (ctx, next) => {
      await next();
      if (ctx.path === '/token' && faults.answer) await faults.answer(ctx);
      if (ctx.path === '/token' && ctx.body?.id_token && faults.token) {
        ctx.body.id_token = await faults.token(decodeJwt(ctx.body.id_token), privateKey, { alg: algorithm, kid: key.kid });
      }
    });
    const answer = known.callback();
    return (request, response) => (request.url.startsWith('/interaction/') ? interact(known, request, response) : answer(request, response));
  }

  async function interact(known, request, response) {
    if (request.method === 'GET') {
      response.setHeader('Content-Type', 'text/html');
      return response.end('<title>Provider</title><form method="post"><label>Account <input name="account"></label><button>Continue</button></form>');
    }
    let body = '';
    for await (const part of request) body += part;
    const accountId = new URLSearchParams(body).get('account');
    const result = accountId ? { login: { accountId } } : { error: 'access_denied', error_description: 'not today' };
    await known.interactionFinished(request, response, result);
  }

  const begin = async (at) => {
    panel = at;
    await rotate();
  };
  const stop = () => {
    server.close();
    server.closeAllConnections();
  };
  return { issuer, begin, rotate, faults, stop };
}

/** Faults of a token: other claims, rightly signed. */
export const claiming = (changed) => (claims, key, header) => new SignJWT({ ...claims, ...changed }).setProtectedHeader(header).sign(key);

/** A token that nobody has signed. */
export const unsigned = (claims) => `${base64url.encode('{"alg":"none"}')}.${base64url.encode(JSON.stringify(claims))}.`;

/** A token that is signed with the client's secret. */
export const symmetric = (claims, _, { kid }) =>
  new SignJWT(claims).setProtectedHeader({ alg: 'HS256', kid }).sign(new TextEncoder().encode(CLIENT.secret.padEnd(32)));
