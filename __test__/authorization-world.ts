/**
 * A server that wants logins and the authorization server it names, both of this process and on this machine, as good
 * or as hostile as a test needs: every document and every endpoint can be changed or taken over.
 */
import { createHash, randomUUID } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';

/** A request as it came in. */
export interface Hit {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  body: string;
  /** The body as a form. */
  form: URLSearchParams;
}

/** Takes a request over; `true` says that it was answered. */
export type TakeOver = (hit: Hit, response: ServerResponse) => boolean | void | Promise<boolean | void>;

export interface WorldOptions {
  /** Path of the MCP endpoint. */
  path?: string;
  /** Seconds that tokens count; nothing is told where it is `null`. */
  life?: number | null;
  /** Whether refresh tokens are used once, and using one twice ends the whole family. */
  rotate?: boolean;
  /** Changes the metadata of the resource; `null` is a 404. */
  resource?: (document: Record<string, unknown>) => Record<string, unknown> | null;
  /** Changes the metadata of the authorization server; `null` is a 404. */
  issuer?: (document: Record<string, unknown>) => Record<string, unknown> | null;
  /** `iss` of the answer to a login; nothing is sent where it is absent. */
  iss?: (issuer: string) => string;
  /** Value of `WWW-Authenticate` of a 401. */
  challenge?: (origin: string) => string | string[];
  /** Scopes that calls of tools need; a token without gets a 403. */
  callScope?: string;
  /** Before the authorization server answers. */
  takeOver?: TakeOver;
  /** Before the MCP server answers. */
  takeOverMcp?: TakeOver;
}

interface Family {
  dead: boolean;
}

/** What a test sees and changes. */
export interface World {
  /** URL of the MCP server. */
  url: string;
  /** Origin of the MCP server. */
  origin: string;
  /** Issuer. */
  issuer: string;
  options: WorldOptions;
  /** Requests to the authorization server. */
  hits: Hit[];
  /** Requests to the MCP server. */
  mcpHits: Hit[];
  /** Access tokens that count. */
  tokens: Set<string>;
  /** Every secret that was given out. */
  secrets: Set<string>;
  /** Refreshes that succeeded. */
  refreshes: number;
  /** Families that were ended because a refresh token came twice. */
  killed: number;
  /** Hits of a path at the authorization server. */
  at(path: string): Hit[];
  /** Follows the authorization URL as a browser that agrees would; gives where it is sent back to. */
  visit(request: { url: string }): Promise<string>;
}

async function listen(answer: (hit: Hit, response: ServerResponse) => Promise<void>): Promise<string> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const url = new URL(request.url ?? '/', 'http://x');
      const hit: Hit = {
        method: request.method ?? '',
        path: url.pathname,
        query: url.searchParams,
        headers: request.headers,
        body,
        form: new URLSearchParams(body),
      };
      void answer(hit, response);
    });
  });
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export function json(response: ServerResponse, status: number, body: unknown, headers = {}): true {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
  return true;
}

/** Starts a server that counts requests and answers each with 200; nobody should come by. */
export async function trap(): Promise<{ origin: string; hits: Hit[] }> {
  const hits: Hit[] = [];
  const origin = await listen(async (hit, response) => {
    hits.push(hit);
    json(response, 200, {});
  });
  return { origin, hits };
}

export async function authorizationWorld(options: WorldOptions = {}): Promise<World> {
  const path = options.path ?? '/mcp';
  const codes = new Map<string, { challenge: string; client: string; redirect: string; scope: string }>();
  const clients = new Map<string, string | undefined>();
  const refresh = new Map<string, { family: Family; used: boolean; scope: string }>();
  const scopes = new Map<string, string>();
  const families = new Map<string, Family>();
  const world = { options, hits: [], mcpHits: [], refreshes: 0, killed: 0 } as unknown as World;
  world.tokens = new Set();
  world.secrets = new Set();
  const secret = (kind: string): string => {
    const text = `${kind}-${randomUUID()}`;
    world.secrets.add(text);
    return text;
  };

  const grant = (family: Family, scope: string): Record<string, unknown> => {
    const access = secret('access');
    const next = secret('refresh');
    world.tokens.add(access);
    scopes.set(access, scope);
    families.set(access, family);
    refresh.set(next, { family, used: false, scope });
    const life = options.life === undefined ? 3600 : options.life;
    if (life !== null) setTimeout(() => world.tokens.delete(access), life * 1000).unref();
    return {
      access_token: access,
      token_type: 'Bearer',
      refresh_token: next,
      ...(life === null ? {} : { expires_in: life }),
      ...(scope === '' ? {} : { scope }),
    };
  };

  const token = (hit: Hit, response: ServerResponse): true => {
    const { form } = hit;
    const basic = /^Basic (.*)$/.exec(hit.headers.authorization ?? '')?.[1];
    const client = basic
      ? decodeURIComponent(Buffer.from(basic, 'base64').toString().split(':')[0])
      : (form.get('client_id') ?? '');
    if (!clients.has(client)) return json(response, 401, { error: 'invalid_client' });
    if (form.get('grant_type') === 'authorization_code') {
      const code = codes.get(form.get('code') ?? '');
      const verifier = createHash('sha256')
        .update(form.get('code_verifier') ?? '')
        .digest('base64url');
      const fits = code?.challenge === verifier && code.redirect === form.get('redirect_uri');
      if (!fits || code.client !== client) return json(response, 400, { error: 'invalid_grant' });
      codes.delete(form.get('code') ?? '');
      return json(response, 200, grant({ dead: false }, code.scope));
    }
    const known = refresh.get(form.get('refresh_token') ?? '');
    if (known === undefined || known.family.dead) return json(response, 400, { error: 'invalid_grant' });
    if (known.used && options.rotate) {
      known.family.dead = true;
      world.killed++;
      for (const [access, family] of families) if (family === known.family) world.tokens.delete(access);
      return json(response, 400, { error: 'invalid_grant' });
    }
    known.used = true;
    world.refreshes++;
    return json(response, 200, grant(known.family, known.scope));
  };

  const authorize = (hit: Hit, response: ServerResponse): true => {
    const code = secret('code');
    const redirect = hit.query.get('redirect_uri') ?? '';
    codes.set(code, {
      challenge: hit.query.get('code_challenge') ?? '',
      client: hit.query.get('client_id') ?? '',
      redirect,
      scope: hit.query.get('scope') ?? '',
    });
    const back = new URL(redirect);
    back.searchParams.set('code', code);
    back.searchParams.set('state', hit.query.get('state') ?? '');
    world.secrets.add(hit.query.get('state') ?? '');
    if (options.iss) back.searchParams.set('iss', options.iss(world.issuer));
    response.writeHead(302, { location: back.href }).end();
    return true;
  };

  const register = (hit: Hit, response: ServerResponse): true => {
    const asked = JSON.parse(hit.body) as Record<string, unknown>;
    const id = `client-${randomUUID()}`;
    clients.set(id, undefined);
    return json(response, 201, { ...asked, client_id: id });
  };

  world.issuer = await listen(async (hit, response) => {
    world.hits.push(hit);
    if (await options.takeOver?.(hit, response)) return;
    if (hit.path === '/.well-known/oauth-authorization-server') {
      const document = {
        issuer: world.issuer,
        authorization_endpoint: `${world.issuer}/authorize`,
        token_endpoint: `${world.issuer}/token`,
        registration_endpoint: `${world.issuer}/register`,
        revocation_endpoint: `${world.issuer}/revoke`,
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none', 'client_secret_basic'],
      };
      const changed = options.issuer ? options.issuer(document) : document;
      return void (changed === null ? json(response, 404, {}) : json(response, 200, changed));
    }
    if (hit.path === '/authorize') return void authorize(hit, response);
    if (hit.path === '/token') return void token(hit, response);
    if (hit.path === '/register') return void register(hit, response);
    if (hit.path === '/revoke') return void json(response, 200, {});
    json(response, 404, {});
  });

  world.origin = await listen(async (hit, response) => {
    world.mcpHits.push(hit);
    if (await options.takeOverMcp?.(hit, response)) return;
    if (hit.path === `/.well-known/oauth-protected-resource${path}`) {
      const document = { resource: world.url, authorization_servers: [world.issuer] };
      const changed = options.resource ? options.resource(document) : document;
      return void (changed === null ? json(response, 404, {}) : json(response, 200, changed));
    }
    if (hit.path !== path) return void json(response, 404, {});
    const bearer = /^Bearer (.*)$/.exec(hit.headers.authorization ?? '')?.[1] ?? '';
    if (!world.tokens.has(bearer)) {
      const challenge = options.challenge?.(world.origin) ?? 'Bearer';
      return void json(response, 401, {}, { 'www-authenticate': challenge });
    }
    if (hit.method !== 'POST') return void response.writeHead(405).end();
    const message = JSON.parse(hit.body) as { id?: number; method: string };
    if (message.id === undefined) return void response.writeHead(202).end();
    const wanted = options.callScope;
    if (message.method === 'tools/call' && wanted && !scopes.get(bearer)?.split(' ').includes(wanted)) {
      const challenge = `Bearer error="insufficient_scope", scope="${wanted}"`;
      return void json(response, 403, {}, { 'www-authenticate': challenge });
    }
    const result = RESULTS[message.method];
    const answer = result === undefined ? { error: { code: -32601, message: 'no such method' } } : { result };
    json(response, 200, { jsonrpc: '2.0', id: message.id, ...answer });
  });
  world.url = `${world.origin}${path}`;
  world.at = (wanted) => world.hits.filter((hit) => hit.path === wanted);
  world.visit = async ({ url }) => {
    const response = await fetch(url, { redirect: 'manual' });
    return response.headers.get('location') ?? '';
  };
  /** Forgets every registered client. */
  (world as World & { forget: () => void }).forget = () => clients.clear();
  /** Knows a client beforehand. */
  clients.set('known-client', 'known-secret');
  return world;
}

const RESULTS: Record<string, unknown> = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 'world', version: '1' },
  },
  'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
  'tools/call': { content: [{ type: 'text', text: 'hello' }] },
};
