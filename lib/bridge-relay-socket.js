'use strict';
// The server's end of a WebSocket that only speaks (RFC 6455): text frames out; of what comes in only ping, pong and
// close matter. Bounded, and without dependencies.

const { createHash } = require('node:crypto');

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
/** Longest frame that is read; an agent has nothing to say here. */
const LONGEST = 64 * 1024;
/** The same for frames about the connection itself. */
const LONGEST_CONTROL = 125;
/** How long a peer may take to close its half. */
const LINGER_MS = 1000;
const TEXT = 1;
const CLOSE = 8;
const PING = 9;
const PONG = 10;

/** A frame from us; those are never masked. */
function frame(opcode, payload) {
  const { length } = payload;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = 0x80 | opcode;
  if (length < 126) head[1] = length;
  else if (length < 65_536) {
    head[1] = 126;
    head.writeUInt16BE(length, 2);
  } else {
    head[1] = 127;
    head.writeBigUInt64BE(BigInt(length), 2);
  }
  return Buffer.concat([head, payload]);
}

/** One frame at the beginning of the bytes: undefined where more of it is to come, null where it breaks the rules. */
function readFrame(bytes) {
  if (bytes.length < 2) return undefined;
  const opcode = bytes[0] & 0x0f;
  const short = bytes[1] & 0x7f;
  const head = short < 126 ? 2 : short === 126 ? 4 : 10;
  if ((bytes[1] & 0x80) === 0 || short === 127) return null;
  if (bytes.length < head + 4) return undefined;
  const length = short < 126 ? short : bytes.readUInt16BE(2);
  if (length > (opcode >= CLOSE ? LONGEST_CONTROL : LONGEST)) return null;
  const end = head + 4 + length;
  if (bytes.length < end) return undefined;
  const mask = bytes.subarray(head, head + 4);
  const payload = Buffer.from(bytes.subarray(head + 4, end).map((byte, index) => byte ^ mask[index % 4]));
  return { opcode, payload, end };
}

/** Ends a socket after its last bytes: a peer that keeps its own half open does not keep the descriptor. */
function letGo(socket, last) {
  socket.end(last);
  setTimeout(() => socket.destroy(), LINGER_MS).unref();
}

class SpeakingSocket {
  #socket;
  #rest = Buffer.alloc(0);
  #closed = false;

  /** Answers an upgrade. `onRoom` is called when there is room again, `onEnd` at the end. */
  constructor(request, socket, head, protocol, { onRoom, onEnd }) {
    this.#socket = socket;
    const key = request.headers['sec-websocket-key'] ?? '';
    const accept = createHash('sha1').update(`${key}${GUID}`).digest('base64');
    const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((name) => name.trim());
    const selected = offered.includes(protocol) ? `Sec-WebSocket-Protocol: ${protocol}\r\n` : '';
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n${selected}\r\n`,
    );
    socket.setNoDelay(true);
    socket.on('data', (bytes) => this.#take(bytes));
    socket.on('drain', onRoom);
    socket.on('end', () => this.close(1000, ''));
    socket.on('close', onEnd);
    socket.on('error', () => socket.destroy());
    if (head.length > 0) this.#take(head);
  }

  /** Whether the other end reads fast enough. */
  get room() {
    return !this.#closed && !this.#socket.writableNeedDrain;
  }

  say(text) {
    if (!this.#closed) this.#socket.write(frame(TEXT, Buffer.from(text)));
  }

  close(code, reason) {
    if (this.#closed) return;
    this.#closed = true;
    const payload = Buffer.alloc(2 + Buffer.byteLength(reason));
    payload.writeUInt16BE(code, 0);
    payload.write(reason, 2);
    letGo(this.#socket, frame(CLOSE, payload));
  }

  #take(bytes) {
    if (this.#closed) return;
    this.#rest = Buffer.concat([this.#rest, bytes]);
    for (;;) {
      const found = readFrame(this.#rest);
      if (found === undefined) return;
      if (found === null) return void this.close(1002, 'a frame that breaks the rules');
      this.#rest = this.#rest.subarray(found.end);
      // Whoever does not read the answers gets none.
      if (found.opcode === PING && this.room) this.#socket.write(frame(PONG, found.payload));
      else if (found.opcode === CLOSE) return void this.close(1000, '');
    }
  }
}

module.exports = { SpeakingSocket, letGo };
