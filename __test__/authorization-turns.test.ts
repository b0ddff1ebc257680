/** Logins that take turns: what one that ends leaves to the next, in one manager and across those that share a store. */
import { describe, expect, test } from 'vitest';
import type { McpManagerOptions } from '..';
import { authorizationWorld, call, inWorld, json, type Hit, type World } from './authorization-world';
import { caught, eventually, pause, temporaryDirectory } from './harness';

const isRefresh = (hit: Hit) => hit.form.get('grant_type') === 'refresh_token';

/** A store of the host, and what stands in it. */
function hostStore() {
  const kept = new Map<string, string>();
  const state = { broken: false };
  const tokenStore = {
    get: (key: string) => kept.get(key) ?? null,
    set: (key: string, value: string) => {
      if (state.broken) throw new Error('disk full');
      kept.set(key, value);
    },
    delete: (key: string) => void kept.delete(key),
  };
  const record = () => JSON.parse([...kept.values()][0]) as Record<string, unknown>;
  return { tokenStore, state, record };
}

/** Nobody comes back from there. */
const never = () => new Promise<never>(() => {});

describe('authenticate() while a login waits', () => {
  test('OAU-02 it replaces one whose URL an error has told', async () => {
    const world = await authorizationWorld();
    await inWorld(
      world,
      async (manager) => {
        expect(await caught(manager.authenticate('w'))).toMatchObject({ code: 'AUTH_REQUIRED' });
        const onAuthorizationUrl = (request: { url: string }) => world.visit(request);
        expect((await manager.authenticate('w', { onAuthorizationUrl })).state).toBe('connected');
        expect(world.at('/authorize').length).toBe(1);
      },
      { onAuthorizationUrl: undefined },
    );
  });

  test.each<[string, boolean]>([
    ['asks its own callback', true],
    ['asks the callback of the manager again', false],
  ])('OAU-02 it replaces one that started by itself with the connection, and %s', async (_, own) => {
    const world = await authorizationWorld();
    let asked = 0;
    const visit = (request: { url: string }) => world.visit(request);
    await inWorld(
      world,
      async (manager) => {
        const connecting = manager.connect('w').catch(() => {});
        await eventually(() => asked === 1);
        const status = await manager.authenticate('w', own ? { onAuthorizationUrl: visit } : {});
        expect(status.state).toBe('connected');
        await connecting;
        expect(asked).toBe(own ? 1 : 2);
        expect(world.at('/authorize').length).toBe(1);
        await call(manager);
      },
      { onAuthorizationUrl: (request) => (++asked === 1 ? never() : visit(request)) },
    );
  });

  test('OAU-02 the callback of the call is asked, not the one of the manager', async () => {
    const world = await authorizationWorld();
    let asked = 0;
    await inWorld(
      world,
      async (manager) => {
        const onAuthorizationUrl = (request: { url: string }) => world.visit(request);
        expect((await manager.authenticate('w', { onAuthorizationUrl })).state).toBe('connected');
        expect(asked).toBe(0);
      },
      { onAuthorizationUrl: () => void asked++ },
    );
  });

  test('OAU-02 one that was given up does not end the next one', async () => {
    const world = await authorizationWorld();
    await inWorld(
      world,
      async (manager) => {
        const controller = new AbortController();
        let asked = false;
        const onAuthorizationUrl = () => ((asked = true), never());
        const given = caught(manager.authenticate('w', { onAuthorizationUrl, signal: controller.signal }));
        await eventually(() => asked);
        controller.abort();
        const visit = (request: { url: string }) => world.visit(request);
        const next = manager.authenticate('w', { onAuthorizationUrl: visit });
        expect((await given).name).toBe('AbortError');
        expect((await next).state).toBe('connected');
      },
      { onAuthorizationUrl: undefined },
    );
  });
});

describe('a good login is kept', () => {
  test('mcp:AUTH-65 where a configured client is refused for its secret, until the secret is right again', async () => {
    let secret = 'first-secret';
    const world: World = await authorizationWorld({
      takeOver: (hit, response) => {
        const given = Buffer.from(hit.headers.authorization?.slice(6) ?? '', 'base64').toString();
        const wrong = hit.path === '/token' && given !== `known-client:${secret}`;
        return wrong && json(response, 401, { error: 'invalid_client' });
      },
    });
    const stateDir = temporaryDirectory();
    const withSecret = (clientSecret: string, visits = false): McpManagerOptions & { oauth: object } => ({
      stateDir,
      oauth: { clientId: 'known-client', clientSecret },
      onAuthorizationUrl: visits ? (request) => world.visit(request) : undefined,
    });
    await inWorld(world, (manager) => manager.connect('w'), withSecret(secret, true));
    secret = 'rotated-secret';
    world.tokens.clear();
    await inWorld(
      world,
      async (manager) => expect(await caught(manager.connect('w'))).toMatchObject({ code: 'AUTH_REQUIRED' }),
      withSecret('first-secret'),
    );
    await inWorld(world, (manager) => manager.connect('w'), withSecret(secret));
    expect(world.refreshes).toBe(1);
    expect(world.at('/authorize').length).toBe(1);
  });

  test('mcp:AUTH-38 mcp:AUTH-09 where another process has logged in while our client was found to be unknown', async () => {
    let refuseRefreshes = false;
    const world: World = await authorizationWorld({
      takeOver: (hit, response) =>
        refuseRefreshes && isRefresh(hit) && json(response, 400, { error: 'temporarily_refused' }),
    });
    const { tokenStore, record } = hostStore();
    let visits = 0;
    const others = { tokenStore, onAuthorizationUrl: (request: { url: string }) => world.visit(request) };
    await inWorld(
      world,
      async (manager) => {
        await manager.connect('w');
        const old = record();
        (world as World & { forget: () => void }).forget();
        world.tokens.clear();
        refuseRefreshes = true;
        expect(await caught(call(manager))).toMatchObject({ code: 'AUTH_FAILED' });
        expect(visits).toBe(3);
        const now = record();
        expect(now.accessToken).not.toBe(old.accessToken);
        expect(world.tokens.has(String(now.accessToken))).toBe(true);
        expect(JSON.stringify(now.registrations)).not.toBe(JSON.stringify(old.registrations));
      },
      {
        tokenStore,
        onAuthorizationUrl: async (request) => {
          const visit = ++visits;
          if (visit === 3) throw new Error('the person has had enough');
          // Meanwhile another process registers anew, and its person logs in.
          if (visit === 2) {
            await inWorld(world, (other) => other.authenticate('w'), {
              ...others,
              oauth: { callbackPort: undefined },
            });
          }
          return world.visit(request);
        },
      },
    );
  });

  test('mcp:AUTH-65 where the store could not keep the newest: what still stands there is not taken for it', async () => {
    const world = await authorizationWorld({ rotate: true });
    const { tokenStore, state } = hostStore();
    await inWorld(
      world,
      async (manager) => {
        await manager.connect('w');
        state.broken = true;
        for (let time = 1; time <= 2; time++) {
          world.tokens.clear();
          expect(await caught(call(manager))).toMatchObject({ code: 'AUTH_STORE_FAILED' });
          await call(manager);
        }
        expect(world).toMatchObject({ refreshes: 2, killed: 0 });
        expect(world.at('/authorize').length).toBe(1);
      },
      { tokenStore },
    );
  });

  test.each(['authenticate() is given up', 'the manager is closed'])(
    'A-1 mcp:AUTH-65 where a token was renewed while %s',
    async (what) => {
      let slow = false;
      const world = await authorizationWorld({
        rotate: true,
        takeOver: async (hit) => {
          if (slow && isRefresh(hit)) await pause(300);
          return false;
        },
      });
      const stateDir = temporaryDirectory();
      const visit = { stateDir, onAuthorizationUrl: (request: { url: string }) => world.visit(request) };
      await inWorld(
        world,
        async (manager) => {
          await manager.connect('w');
          world.tokens.clear();
          slow = true;
          const calling = call(manager).catch(() => {});
          await eventually(() => world.hits.some(isRefresh));
          if (what === 'the manager is closed') {
            await manager.close();
            return void (await calling);
          }
          const controller = new AbortController();
          const onAuthorizationUrl = () => (controller.abort(), never());
          await caught(manager.authenticate('w', { onAuthorizationUrl, signal: controller.signal }));
          await calling;
        },
        visit,
      );
      await inWorld(world, async (manager) => void (await manager.connect('w')), visit);
      expect(world).toMatchObject({ refreshes: 1, killed: 0 });
      expect(world.at('/authorize').length).toBe(1);
    },
  );
});
