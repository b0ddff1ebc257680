/** Tokens without a person, and tokens that are bound to a key (BEY-11; mcp:CC, EMA, WIF, DPOP). */
import { createHash, generateKeyPairSync } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { authorizationWorld, call, inWorld, json, type Hit, type World } from './authorization-world';
import { caught } from './harness';

/** A world whose token endpoint is the test's; every request to it that was answered with a token. */
async function machineWorld(answer: (hit: Hit, response: ServerResponse, world: World) => true | false) {
  const world: World = await authorizationWorld({
    challenge: () => 'Bearer scope="read"',
    issuer: (document) => ({
      ...document,
      token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post', 'private_key_jwt'],
      token_endpoint_auth_signing_alg_values_supported: ['ES256'],
    }),
    takeOver: (hit, response) => (hit.path === '/token' ? answer(hit, response, world) : false),
  });
  return world;
}

let made = 0;
const give = (response: ServerResponse, world: World, extra = {}): true => {
  const token = `machine-token-${++made}`;
  world.tokens.add(token);
  return json(response, 200, { access_token: token, token_type: 'Bearer', ...extra });
};

const claims = (jwt: string, part = 1) =>
  JSON.parse(Buffer.from(jwt.split('.')[part], 'base64url').toString()) as Record<string, unknown>;

describe('machines', () => {
  test('mcp:CC-01 mcp:CC-03 mcp:CC-04 mcp:CC-05 client credentials by secret: no registration, resource and scope, anew when refused', async () => {
    for (const method of ['basic', 'post'] as const) {
      const world = await machineWorld((_, response, own) => give(response, own));
      const clientCredentials = { method };
      await inWorld(
        world,
        async (manager) => {
          await manager.connect('w');
          world.tokens.clear();
          await call(manager);
          expect(world.at('/register')).toEqual([]);
          expect(world.at('/token').length).toBe(2);
          for (const { form, headers } of world.at('/token')) {
            expect(Object.fromEntries(form)).toMatchObject({
              grant_type: 'client_credentials',
              resource: world.url,
              scope: 'read',
            });
            expect(headers.authorization !== undefined).toBe(method === 'basic');
            expect(form.get('client_secret')).toBe(method === 'post' ? 'machine-secret' : null);
          }
        },
        { oauth: { clientId: 'machine', clientSecret: 'machine-secret', clientCredentials } },
      );
    }
  });

  test('mcp:CC-02 client credentials by a signed assertion that is used once', async () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const privateKeyPem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    const world = await machineWorld((_, response, own) => give(response, own));
    await inWorld(
      world,
      async (manager) => {
        await manager.connect('w');
        world.tokens.clear();
        await call(manager);
        const forms = world.at('/token').map(({ form }) => form);
        const told = forms.map((form) => claims(form.get('client_assertion')!));
        for (const one of told) {
          expect(one).toMatchObject({ iss: 'machine', sub: 'machine', aud: world.issuer });
          expect(Number(one.exp) - Number(one.iat)).toBeLessThanOrEqual(300);
        }
        expect(new Set(told.map(({ jti }) => jti)).size).toBe(2);
        expect(forms[0].get('client_assertion_type')).toBe(
          'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
        );
        expect(forms[0].has('client_id')).toBe(false);
      },
      {
        oauth: {
          clientId: 'machine',
          clientCredentials: { method: 'private_key_jwt', privateKeyPem, algorithm: 'ES256' },
        },
      },
    );
  });

  test('mcp:EMA-01 mcp:EMA-02 mcp:EMA-03 the identity provider vouches, and its assertion is no token', async () => {
    const world = await machineWorld((hit, response, own) => {
      if (hit.form.get('grant_type') !== 'urn:ietf:params:oauth:grant-type:jwt-bearer') {
        return json(response, 400, { error: 'unsupported_grant_type' });
      }
      return give(response, own);
    });
    const provider = await authorizationWorld({
      takeOver: (hit, response) =>
        hit.path === '/token'
          ? json(response, 200, {
              access_token: 'identity-assertion',
              issued_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
              token_type: 'N_A',
            })
          : false,
    });
    await inWorld(
      world,
      async (manager) => {
        expect((await manager.connect('w')).state).toBe('connected');
        expect(Object.fromEntries(provider.at('/token')[0].form)).toMatchObject({
          grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
          requested_token_type: 'urn:ietf:params:oauth:token-type:id-jag',
          audience: world.issuer,
          resource: world.url,
          scope: 'read',
          subject_token: 'identity-token',
          subject_token_type: 'urn:ietf:params:oauth:token-type:id_token',
        });
        const [{ form, headers }] = world.at('/token');
        expect(form.get('assertion')).toBe('identity-assertion');
        expect(headers.authorization).toMatch(/^Basic /);
        const shown = world.mcpHits.map(({ headers: own }) => own.authorization ?? '');
        expect(shown.join()).not.toContain('identity-assertion');
      },
      {
        oauth: {
          clientId: 'machine',
          clientSecret: 'machine-secret',
          enterpriseManaged: {
            idpIssuer: provider.issuer,
            idpTokenEndpoint: `${provider.issuer}/token`,
            idpClientId: 'idp-client',
            idToken: 'identity-token',
          },
        },
      },
    );
  });

  test('mcp:EMA-01 an identity token of another issuer than idpIssuer is sent to nobody', async () => {
    const provider = await authorizationWorld();
    const world = await machineWorld((_, response, own) => give(response, own));
    const said = Buffer.from('{"iss":"https://somebody.else"}').toString('base64url');
    await inWorld(
      world,
      async (manager) => {
        const error = await caught(manager.connect('w'));
        expect(error).toMatchObject({ code: 'AUTH_ISSUER_MISMATCH', server: 'w' });
        expect(error.message).toContain('idpIssuer');
        expect(JSON.stringify([error, manager.status()])).not.toContain(said);
      },
      {
        oauth: {
          clientId: 'machine',
          clientSecret: 'machine-secret',
          enterpriseManaged: {
            idpIssuer: provider.issuer,
            idpTokenEndpoint: `${provider.issuer}/token`,
            idpClientId: 'idp-client',
            idToken: `e30.${said}.c2ln`,
          },
        },
      },
    );
    expect(provider.at('/token')).toEqual([]);
    expect(world.at('/token')).toEqual([]);
  });

  test('mcp:WIF-01 a workload that is refused does not ask again, nor in another way', async () => {
    for (const fine of [true, false]) {
      const world = await machineWorld((_, response, own) =>
        fine ? give(response, own) : json(response, 400, { error: 'invalid_grant' }),
      );
      await inWorld(
        world,
        async (manager) => {
          const outcome = await manager.connect('w').catch((error: unknown) => error);
          if (fine) expect(outcome).toMatchObject({ state: 'connected' });
          else expect(outcome).toMatchObject({ code: 'AUTH_FAILED' });
          await caught(manager.reconnect('w')).catch(() => {});
          const forms = world.at('/token').map(({ form }) => form);
          expect(forms.length).toBe(1);
          expect(forms[0].get('assertion')).toBe('workload-token');
          expect(world.at('/authorize')).toEqual([]);
        },
        { oauth: { clientId: 'workload', workloadIdentity: { assertion: 'workload-token' } } },
      );
    }
  });

  test('mcp:DPOP-01 mcp:DPOP-02 mcp:DPOP-03 proofs for both servers, each new, with the nonces they ask for', async () => {
    const proofs: Record<string, unknown>[] = [];
    const world: World = await authorizationWorld({
      challenge: (origin) =>
        `DPoP algs="ES256", resource_metadata="${origin}/.well-known/oauth-protected-resource/mcp"`,
      takeOver: (hit, response) => {
        if (hit.path !== '/token') return false;
        const proof = claims(String(hit.headers.dpop));
        proofs.push({ ...proof, ...claims(String(hit.headers.dpop), 0) });
        if (proof.nonce !== 'as-nonce') {
          return json(response, 400, { error: 'use_dpop_nonce' }, { 'dpop-nonce': 'as-nonce' });
        }
        return json(response, 200, { access_token: 'bound-token', token_type: 'DPoP' });
      },
      takeOverMcp: (hit, response) => {
        if (hit.path !== '/mcp' || hit.headers.authorization !== 'DPoP bound-token') return false;
        const proof = claims(String(hit.headers.dpop));
        proofs.push({ ...proof, ...claims(String(hit.headers.dpop), 0) });
        if (proof.nonce !== 'rs-nonce') {
          const fields = { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': 'rs-nonce' };
          return json(response, 401, {}, fields);
        }
        hit.headers.authorization = 'Bearer bound-token';
        return false;
      },
    });
    world.tokens.add('bound-token');
    await inWorld(
      world,
      async (manager) => {
        expect((await manager.connect('w')).state).toBe('connected');
        await call(manager);
        expect(new Set(proofs.map(({ jti }) => jti)).size).toBe(proofs.length);
        const ath = createHash('sha256').update('bound-token').digest('base64url');
        for (const proof of proofs) {
          expect(proof).toMatchObject({
            typ: 'dpop+jwt',
            alg: 'ES256',
            htm: expect.stringMatching(/^(POST|GET)$/),
          });
          if (proof.htu === world.url) expect(proof.ath).toBe(ath);
        }
        const nonces = proofs.map(({ htu, nonce }) => [htu === world.url ? 'rs' : 'as', nonce]);
        expect(nonces.slice(0, 4)).toEqual([
          ['as', undefined],
          ['as', 'as-nonce'],
          ['rs', undefined],
          ['rs', 'rs-nonce'],
        ]);
        expect(nonces.slice(4).every(([, nonce]) => nonce === 'rs-nonce')).toBe(true);
      },
      { oauth: { dpop: true } },
    );
  });
});
