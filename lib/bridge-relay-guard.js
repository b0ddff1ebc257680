'use strict';
// Who may speak to the reference relay: origin and host, then the token; guessing is slowed down.

const { createHash, timingSafeEqual } = require('node:crypto');
const check = require('./check.js');

const ROLES = ['agent', 'controller'];
/** Failures of one address within the window before it is not listened to any more. */
const FAILURES = 10;
const WINDOW_MS = 60_000;
/** Addresses whose failures are remembered. */
const ADDRESSES = 10_000;
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/i;

const digest = (text) => createHash('sha256').update(text).digest();

/** Compares in constant time. */
const same = (left, right) => timingSafeEqual(digest(left), digest(right));

/** The function that fixed tokens stand for. */
function byTokens(tokens) {
  return ({ token, role }) => typeof tokens[role] === 'string' && same(token, tokens[role]);
}

class Guard {
  #authorize;
  #origins;
  #hosts;
  #failures = new Map();
  #limits;

  constructor({ authorize, tokens, allowedOrigins = [], allowedHosts, limitFailures = true }) {
    check.optionalFunction(authorize, 'options.authorize');
    check.optionalObject(tokens, 'options.tokens');
    for (const role of ROLES) check.optionalString(tokens?.[role], `options.tokens.${role}`);
    // Without any of them nobody could speak to it, or everybody.
    if (authorize === undefined && !ROLES.some((role) => tokens?.[role] !== undefined))
      throw check.invalid('options.tokens', 'authorize, or a token for an agent or a controller', tokens);
    this.#authorize = authorize ?? byTokens(tokens);
    this.#limits = limitFailures;
    this.#origins = new Set(allowedOrigins);
    this.#hosts = allowedHosts === undefined ? undefined : new Set(allowedHosts);
  }

  /** The status that refuses a request; undefined where it may go on. */
  async judge(request, role, sessionId) {
    const { origin, host = '', authorization = '' } = request.headers;
    // A page in somebody's browser is no agent and no controller, whatever it knows.
    if (origin !== undefined && !this.#origins.has(origin)) return 403;
    const local = /^(::1|127\.|::ffff:127\.)/.test(request.socket.localAddress ?? '');
    if (this.#hosts === undefined ? local && !LOOPBACK.test(host) : !this.#hosts.has(host)) return 403;
    const address = request.socket.remoteAddress ?? '';
    if (this.#isLocked(address)) return 429;
    const token = /^Bearer +(\S+)$/i.exec(authorization)?.[1];
    let allowed = false;
    try {
      allowed = token !== undefined && (await this.#authorize({ token, role, sessionId, request })) === true;
    } catch {
      // What cannot be checked is not allowed.
    }
    // Guesses side by side are guesses: what came of the others meanwhile counts.
    if (this.#isLocked(address)) return 429;
    if (allowed) return undefined;
    this.#remember(address);
    return 401;
  }

  #isLocked(address) {
    const known = this.#failures.get(address);
    return known !== undefined && known.count >= FAILURES && Date.now() - known.since < WINDOW_MS;
  }

  #remember(address) {
    if (!this.#limits) return;
    const known = this.#failures.get(address);
    if (known !== undefined && Date.now() - known.since < WINDOW_MS) {
      known.count += 1;
      return;
    }
    this.#failures.delete(address);
    this.#failures.set(address, { count: 1, since: Date.now() });
    if (this.#failures.size > ADDRESSES) this.#failures.delete(this.#failures.keys().next().value);
  }
}

module.exports = { Guard };
