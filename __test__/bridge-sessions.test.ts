/** Sessions over REST and the processes that serve them (BRG-09), against the reference relay and real processes. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { spawn } from 'node:child_process';
import { expect, onTestFinished, test } from 'vitest';
import { BridgeSessions, servedSession, type JsonObject } from '..';
import { bridgeFor, relayFor, TOKENS } from './bridge-world';
import { caught, eventually, fixture, isAlive, root } from './harness';

const getAuthToken = () => TOKENS.agent;
const AGENT = fixture('bridge-agent.mjs');

/** A process that serves a session, and what it told. */
async function served(sessions: BridgeSessions, id: string, ...flags: string[]) {
  const child = await sessions.spawn(id, {
    command: process.execPath,
    args: [AGENT, ...flags],
    graceMs: 1000,
  });
  onTestFinished(() => child.close({ mode: 'fast' }));
  const told: any[] = [];
  const lines: string[] = [];
  child.on('message', (message) => told.push(message));
  child.on('stderr', (line) => lines.push(line));
  child.on('output', (line) => lines.push(line));
  await eventually(() => told.length > 0 || child.exit !== undefined, 20_000, 'a connected process');
  expect(lines.join('\n')).toBe('');
  return { child, told, lines };
}

const gone = (pid: number) => eventually(() => !isAlive(pid), 10_000, `the end of ${pid}`);

test('BRG-09 sessions are made, put away and taken up again', async () => {
  const { relay, url } = await relayFor();
  const sessions = new BridgeSessions({ baseUrl: url, getAuthToken });
  const made = await sessions.create({ title: 'Tidy up', metadata: { branch: 'main' } });
  expect(made).toMatchObject({ title: 'Tidy up', metadata: { branch: 'main' }, archived: false });
  expect(await sessions.archive(made.id)).toMatchObject({ id: made.id, archived: true });
  const { bridge } = bridgeFor({ baseUrl: url, sessionId: made.id });
  expect(await caught(bridge.connect())).toMatchObject({ code: 'BRIDGE_PROTOCOL' });
  expect(await sessions.resume(made.id)).toMatchObject({ id: made.id, archived: false });
  const again = bridgeFor({ baseUrl: url, sessionId: made.id });
  await again.bridge.connect();
  expect(relay.session(made.id).online).toBe(true);
  expect(await caught(sessions.resume('nobody'))).toMatchObject({ code: 'BRIDGE_PROTOCOL', status: 404 });
});

/** A server that answers as it is told. */
async function answering(
  answer: (request: IncomingMessage, response: ServerResponse, count: number) => void,
) {
  let count = 0;
  const server = createServer((request, response) => {
    request.resume();
    answer(request, response, (count += 1));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, count: () => count };
}

test('BRG-09 what may work later is tried again, under one key; what never will is not', async () => {
  const keys = new Set<unknown>();
  const busy = await answering((request, response, count) => {
    keys.add(request.headers['idempotency-key']);
    if (count === 1) return void request.socket.destroy();
    if (count === 2) return void response.writeHead(503, { 'Retry-After': '0' }).end();
    response.end(JSON.stringify({ id: 'session_1' }));
  });
  const sessions = new BridgeSessions({ baseUrl: busy.url, getAuthToken });
  expect(await sessions.create()).toEqual({ id: 'session_1' });
  expect([busy.count(), keys.size]).toEqual([3, 1]);

  const down = await answering((_, response) => void response.writeHead(500).end());
  const twice = new BridgeSessions({ baseUrl: down.url, getAuthToken, maxAttempts: 2 });
  expect(await caught(twice.create())).toMatchObject({ code: 'HTTP_STATUS', status: 500, attempts: 2 });

  const wrong = await answering((_, response) => void response.writeHead(400).end());
  const once = new BridgeSessions({ baseUrl: wrong.url, getAuthToken });
  expect(await caught(once.archive('s'))).toMatchObject({
    code: 'BRIDGE_PROTOCOL',
    status: 400,
    attempts: 1,
  });

  const odd = await answering((_, response) => void response.end('{"id":"../x y"}'));
  expect((await caught(new BridgeSessions({ baseUrl: odd.url, getAuthToken }).create())).code).toBe(
    'BRIDGE_PROTOCOL',
  );
});

test('BRG-06 BRG-09 401: the token is refreshed once', async () => {
  const { url } = await relayFor();
  const calls: boolean[] = [];
  const sessions = new BridgeSessions({
    baseUrl: url,
    getAuthToken: ({ forceRefresh }) => {
      calls.push(forceRefresh);
      return forceRefresh ? TOKENS.agent : 'old';
    },
  });
  await sessions.create();
  expect(calls).toEqual([false, true]);
  const never = new BridgeSessions({ baseUrl: url, getAuthToken: () => 'wrong' });
  expect((await caught(never.create())).code).toBe('BRIDGE_AUTH_FAILED');
});

test('BRG-09 a process serves a session, without a token in its environment or arguments', async () => {
  const { relay, url } = await relayFor();
  const sessions = new BridgeSessions({ baseUrl: url, getAuthToken });
  const { id } = await sessions.create();
  const { child, told, lines } = await served(sessions, id);
  expect(told[0].connected).toBe(true);
  expect(JSON.stringify(told[0])).not.toContain(TOKENS.agent);
  expect(told[0].env).toContain(id);
  const replies: JsonObject[] = [];
  relay.session(id).on('message', (message) => replies.push(message));
  relay.session(id).send({ type: 'user', uuid: 'u', text: 'hello' });
  await eventually(() => replies.length === 1);
  expect(replies[0]).toMatchObject({ type: 'assistant', reply: 'hello' });
  await child.send({ say: 'something' });
  await eventually(() => told.some(({ said }) => said === 'something'));
  await child.send({ print: 'a line that is no message' });
  await eventually(() => lines.includes('a line that is no message'));
  await child.close();
  expect(child.exit).toMatchObject({ code: 0, signal: null });
  await gone(child.pid);
  await eventually(() => !relay.session(id).online);
  expect((await caught(child.send({ say: 'too late' }))).code).toBe('SERVER_EXITED');
}, 60_000);

test('BRG-09 what a process started ends with it, also when it does not want to', async () => {
  const { url } = await relayFor();
  const sessions = new BridgeSessions({ baseUrl: url, getAuthToken });
  const { child, told } = await served(sessions, 's', '--stay');
  await child.send({ grandchild: true });
  const { grandchild } = await eventually(
    () => told.find((message) => message.grandchild !== undefined),
    10_000,
  );
  expect(isAlive(grandchild)).toBe(true);
  await child.close();
  await gone(child.pid);
  await gone(grandchild);
  expect(child.exit?.signal).toMatch(/^SIG/);
}, 60_000);

test('BRG-09 the end of a process is told, and a program that is not there is an error', async () => {
  const { url } = await relayFor();
  const sessions = new BridgeSessions({ baseUrl: url, getAuthToken });
  const { child } = await served(sessions, 's');
  const exits: unknown[] = [];
  child.on('exit', (exit) => exits.push(exit));
  await child.send({ exit: 7 });
  expect(await child.exited()).toMatchObject({ code: 7, signal: null });
  expect(exits).toHaveLength(1);
  const error = await caught(sessions.spawn('s', { command: 'no-such-program-anywhere' }));
  expect(error).toMatchObject({ code: 'SPAWN_FAILED', server: 's' });
  expect(servedSession()).toBeNull();
}, 60_000);

test.each(['exit', 'kill'])(
  'BRG-09 no process outlives its host (%s)',
  async (how) => {
    const { url } = await relayFor();
    const source = `
    const { BridgeSessions } = require(${JSON.stringify(root)});
    const sessions = new BridgeSessions({ baseUrl: ${JSON.stringify(url)}, getAuthToken: () => ${JSON.stringify(TOKENS.agent)} });
    sessions.spawn('s', { command: process.execPath, args: [${JSON.stringify(AGENT)}, '--stay'] }).then((child) => {
      child.on('message', ({ connected, grandchild }) => {
        if (connected) void child.send({ grandchild: true });
        if (grandchild) {
          console.log(child.pid, grandchild);
          if (${JSON.stringify(how)} === 'exit') process.exit(0);
        }
      });
      setInterval(() => {}, 1000);
    });`;
    const host = spawn(process.execPath, ['-e', source], { stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(() => void host.kill('SIGKILL'));
    let text = '';
    host.stdout.on('data', (chunk) => (text += chunk));
    await eventually(() => text.includes('\n'), 30_000, 'the processes');
    const pids = text.trim().split(' ').map(Number);
    if (how === 'kill') host.kill('SIGKILL');
    for (const pid of pids) await gone(pid);
  },
  60_000,
);

test('LIF-08 BRG-09 neither a connected bridge nor a process that serves keeps the host alive', async () => {
  const { url } = await relayFor();
  const source = `
    const { Bridge, BridgeSessions } = require(${JSON.stringify(root)});
    const getAuthToken = () => ${JSON.stringify(TOKENS.agent)};
    const bridge = new Bridge({ baseUrl: ${JSON.stringify(url)}, sessionId: process.argv[1], getAuthToken, keepAlive: process.argv[1] === 'stay' });
    const sessions = new BridgeSessions({ baseUrl: ${JSON.stringify(url)}, getAuthToken });
    (async () => {
      await bridge.connect();
      await bridge.send({ type: 'x' });
      const child = await sessions.spawn(process.argv[1] + '-served', { command: process.execPath, args: [${JSON.stringify(AGENT)}] });
      console.log('ready', child.pid);
    })();`;
  const run = (argument: string) => {
    const host = spawn(process.execPath, ['-e', source, argument], { stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(() => void host.kill('SIGKILL'));
    const seen = { text: '', code: undefined as number | null | undefined };
    host.stdout.on('data', (chunk) => (seen.text += chunk));
    host.on('exit', (code) => (seen.code = code));
    return seen;
  };
  const [idle, kept] = [run('go'), run('stay')];
  await eventually(() => idle.code !== undefined, 30_000, 'the end of an idle host');
  expect([idle.code, idle.text.startsWith('ready')]).toEqual([0, true]);
  await eventually(() => kept.text.startsWith('ready'), 30_000);
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(kept.code).toBeUndefined();
}, 60_000);
