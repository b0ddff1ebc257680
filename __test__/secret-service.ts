/**
 * A keychain for the tests: a session bus of its own with a Secret Service on it, both as far as a client needs them.
 * It speaks the D-Bus protocol over a socket and knows nothing of how clients are made.
 */
import { randomBytes } from 'node:crypto';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { temporaryDirectory } from './harness';

/**
 * `open` works · `locked` needs a person, and hides what it holds · `absent`: a bus without the service · `deaf`: calls
 * are never answered · `silent`: not even the greeting is.
 */
export type Mode = 'open' | 'locked' | 'absent' | 'deaf' | 'silent';

export interface SecretService {
  /** For `DBUS_SESSION_BUS_ADDRESS`. */
  address: string;
  mode: Mode;
  /** Methods that were called. */
  calls: string[];
  /** Connections so far. */
  connections: number;
  /** Connections that are open now. */
  open: Set<Socket>;
  /** What is kept, by `username`. */
  items: Map<string, string>;
}

/** Cuts `a{sv}s` into its complete types. */
function types(signature: string): string[] {
  const found: string[] = [];
  for (let at = 0; at < signature.length;) {
    const start = at;
    while (signature[at] === 'a') at++;
    if (signature[at] === '(' || signature[at] === '{') {
      for (let depth = 0; ; at++) {
        if ('({'.includes(signature[at])) depth++;
        if (')}'.includes(signature[at]) && --depth === 0) break;
      }
    }
    found.push(signature.slice(start, ++at));
  }
  return found;
}

const alignment = (type: string): number =>
  ({ y: 1, g: 1, v: 1, b: 4, u: 4, s: 4, o: 4, a: 4, '(': 8, '{': 8 })[type[0]] ?? NaN;

/** A value with its type, as in `v`. */
class Variant {
  constructor(
    readonly type: string,
    readonly value: unknown,
  ) {}
}

class Writer {
  bytes: number[] = [];

  align(to: number): void {
    while (this.bytes.length % to !== 0) this.bytes.push(0);
  }

  u32(value: number): void {
    this.align(4);
    this.bytes.push(value & 255, (value >>> 8) & 255, (value >>> 16) & 255, value >>> 24);
  }

  write(type: string, value: unknown): void {
    this.align(alignment(type));
    const inner = type.slice(1, -1);
    switch (type[0]) {
      case 'y':
        this.bytes.push(value as number);
        break;
      case 'b':
      case 'u':
        this.u32(Number(value));
        break;
      case 's':
      case 'o': {
        const text = Buffer.from(value as string);
        this.u32(text.length);
        this.bytes.push(...text, 0);
        break;
      }
      case 'g':
        this.bytes.push((value as string).length, ...Buffer.from(value as string), 0);
        break;
      case 'v': {
        const { type: own, value: held } = value as Variant;
        this.write('g', own);
        this.write(own, held);
        break;
      }
      case 'a': {
        this.u32(0);
        const length = this.bytes.length;
        this.align(alignment(type[1]));
        const start = this.bytes.length;
        for (const each of value as unknown[]) this.write(type.slice(1), each);
        const size = new Writer();
        size.u32(this.bytes.length - start);
        this.bytes.splice(length - 4, 4, ...size.bytes);
        break;
      }
      default:
        types(inner).forEach((each, index) => this.write(each, (value as unknown[])[index]));
    }
  }
}

class Reader {
  constructor(
    readonly bytes: Buffer,
    public at = 0,
  ) {}

  u32(): number {
    this.at = Math.ceil(this.at / 4) * 4;
    this.at += 4;
    return this.bytes.readUInt32LE(this.at - 4);
  }

  read(type: string): any {
    const to = alignment(type);
    this.at = Math.ceil(this.at / to) * to;
    switch (type[0]) {
      case 'y':
        return this.bytes[this.at++];
      case 'b':
        return this.u32() === 1;
      case 'u':
        return this.u32();
      case 's':
      case 'o':
      case 'g': {
        const length = type === 'g' ? this.bytes[this.at++] : this.u32();
        this.at += length + 1;
        return this.bytes.toString('utf8', this.at - length - 1, this.at - 1);
      }
      case 'v':
        return this.read(this.read('g') as string);
      case 'a': {
        const size = this.u32();
        this.at = Math.ceil(this.at / alignment(type[1])) * alignment(type[1]);
        const end = this.at + size;
        const found: unknown[] = [];
        while (this.at < end) found.push(this.read(type.slice(1)));
        return found;
      }
      default:
        return types(type.slice(1, -1)).map((each) => this.read(each));
    }
  }
}

interface Call {
  serial: number;
  path: string;
  interface: string;
  member: string;
  body: any[];
}

const ROOT = '/org/freedesktop/secrets';
const COLLECTION = `${ROOT}/collection/login`;
const PROMPT = `${ROOT}/prompt/1`;
const SESSION = `${ROOT}/session/1`;
const itemPath = (name: string): string => `${COLLECTION}/${name}`;

/** An answer: its signature and values, or the name of an error. */
type Answer = [string, ...unknown[]] | { error: string };

function answer(service: SecretService, call: Call): Answer | undefined {
  if (call.member === 'Hello') return ['s', ':1.1'];
  service.calls.push(call.member);
  if (service.mode === 'deaf') return undefined;
  if (service.mode === 'absent') return { error: 'org.freedesktop.DBus.Error.ServiceUnknown' };
  const locked = service.mode === 'locked';
  const name = call.path.slice(COLLECTION.length + 1);
  const wanted = (attributes: [string, string][]): string =>
    attributes.find(([key]) => key === 'username')?.[1] ?? '';
  switch (call.member) {
    case 'OpenSession':
      if (call.body[0] !== 'plain') return { error: 'org.freedesktop.DBus.Error.NotSupported' };
      return ['vo', new Variant('s', ''), SESSION];
    case 'SearchItems': {
      const user = wanted(call.body[0]);
      return ['aoao', !locked && service.items.has(user) ? [itemPath(user)] : [], []];
    }
    case 'ReadAlias':
      return ['o', call.body[0] === 'default' ? COLLECTION : '/'];
    case 'Get':
      return ['v', new Variant('b', locked)];
    case 'Unlock':
      return ['aoo', locked ? [] : call.body[0], locked ? PROMPT : '/'];
    case 'Dismiss':
      return [''];
    case 'GetSecrets': {
      const found = (call.body[0] as string[]).map((path) => {
        const text = service.items.get(path.slice(COLLECTION.length + 1)) ?? '';
        return [path, [SESSION, [], [...Buffer.from(text)], 'text/plain']];
      });
      return ['a{o(oayays)}', found];
    }
    case 'CreateItem': {
      if (locked) return { error: 'org.freedesktop.Secret.Error.IsLocked' };
      const properties = new Map<string, [string, string][]>(call.body[0]);
      const user = wanted(properties.get('org.freedesktop.Secret.Item.Attributes') ?? []);
      service.items.set(user, Buffer.from(call.body[1][2] as number[]).toString());
      return ['oo', itemPath(user), '/'];
    }
    default:
      return { error: `org.freedesktop.DBus.Error.UnknownMethod.${name}` };
  }
}

function reply(call: Call, serial: number, content: Answer): Buffer {
  const failed = 'error' in content;
  const [signature, ...values] = failed ? ['s', 'no'] : content;
  const body = new Writer();
  types(signature).forEach((type, index) => body.write(type, values[index]));
  const head = new Writer();
  head.bytes.push(0x6c, failed ? 3 : 2, 1, 1);
  head.u32(body.bytes.length);
  head.u32(serial);
  head.write('a(yv)', [
    [5, new Variant('u', call.serial)],
    ...(failed ? [[4, new Variant('s', content.error)]] : []),
    ...(signature ? [[8, new Variant('g', signature)]] : []),
    [7, new Variant('s', 'org.freedesktop.DBus')],
  ]);
  head.align(8);
  return Buffer.from([...head.bytes, ...body.bytes]);
}

/** The next message and what is behind it; `undefined` while it is not whole. */
function message(bytes: Buffer): { call: Call; rest: Buffer } | undefined {
  if (bytes.length < 16) return undefined;
  const fields = bytes.readUInt32LE(12);
  const start = Math.ceil((16 + fields) / 8) * 8;
  const end = start + bytes.readUInt32LE(4);
  if (bytes.length < end) return undefined;
  const head = new Map<number, string>(new Reader(bytes, 12).read('a(yv)'));
  const reader = new Reader(bytes.subarray(start, end));
  const call: Call = {
    serial: bytes.readUInt32LE(8),
    path: head.get(1) ?? '',
    interface: head.get(2) ?? '',
    member: head.get(3) ?? '',
    body: types(head.get(8) ?? '').map((type) => reader.read(type)),
  };
  return { call, rest: bytes.subarray(end) };
}

function serve(service: SecretService, socket: Socket): void {
  let bytes: Buffer = Buffer.alloc(0);
  let greeted = false;
  let serial = 0;
  service.connections++;
  service.open.add(socket);
  socket.on('close', () => service.open.delete(socket));
  socket.on('error', () => {});
  socket.on('data', (chunk: Buffer) => {
    if (service.mode === 'silent') return;
    bytes = Buffer.concat([bytes, chunk]);
    while (!greeted && bytes.includes('\r\n')) {
      const end = bytes.indexOf('\r\n');
      const line = bytes.toString('latin1', 0, end).replace(/^\0/, '');
      bytes = bytes.subarray(end + 2);
      if (line === 'AUTH EXTERNAL') socket.write('DATA\r\n');
      else if (/^(AUTH EXTERNAL|DATA)/.test(line)) socket.write(`OK ${randomBytes(16).toString('hex')}\r\n`);
      else if (line === 'BEGIN') greeted = true;
      else socket.write('ERROR\r\n');
    }
    for (let next; greeted && (next = message(bytes)); bytes = next.rest) {
      const content = answer(service, next.call);
      if (content) socket.write(reply(next.call, ++serial, content));
    }
  });
}

/** Starts one; it ends with the test. */
export async function secretService(mode: Mode = 'open'): Promise<SecretService> {
  const path = join(temporaryDirectory(), 'bus');
  const service: SecretService = {
    address: `unix:path=${path}`,
    mode,
    calls: [],
    connections: 0,
    open: new Set(),
    items: new Map(),
  };
  const server = createServer((socket) => serve(service, socket));
  server.listen(path);
  await new Promise((resolve) => server.once('listening', resolve));
  onTestFinished(() => {
    for (const socket of service.open) socket.destroy();
    server.close();
  });
  return service;
}
