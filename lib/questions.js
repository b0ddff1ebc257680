'use strict';
// What the native half asks of the host: which function of the options each question goes to, and in which form.
// Owns the questions that are open and the locks of the token store that are held; decides nothing.

const { describe } = require('./errors.js');

/**
 * Takes a lock. Its body lasts until the native half gives the lock back, which it does as well when it gave up waiting:
 * one that is had after that is let go at once (OAU-03).
 */
function holdLock({ tokenStore }, { key, hold }, _signal, { holds }) {
  const over = new Promise((release) => holds.set(hold, release));
  return new Promise((resolve, reject) => {
    const body = () => {
      resolve(null);
      return over;
    };
    const take = async () => {
      await tokenStore.lock(key, body);
      throw new Error('tokenStore.lock has not run its body');
    };
    // Whoever has had the lock hears nothing of its end.
    take()
      .catch(reject)
      .finally(() => holds.delete(hold));
  });
}

/** Lets a lock go that is held, or that is still waited for. */
const releaseLock = (_host, { hold }, _signal, { holds }) => holds.get(hold)?.();

/** Questions by the name of the function that answers them. */
const FUNCTIONS = {
  onAuthorizationUrl: (host, { login, ...body }, signal, { logins }) =>
    login === null ? host.onAuthorizationUrl({ ...body, signal }) : logins.get(login)?.({ ...body, signal }),
  'tokenStore.get': ({ tokenStore }, { key }) => tokenStore.get(key),
  'tokenStore.set': async ({ tokenStore }, { key, value }) => void (await tokenStore.set(key, value)),
  'tokenStore.delete': async ({ tokenStore }, { key }) => void (await tokenStore.delete(key)),
  'tokenStore.lock': holdLock,
  onPermission: (host, body, signal) => host.onPermission({ ...body, signal }),
  onApproval: (host, body, signal) => host.onApproval({ ...body, signal }),
  'hooks.preToolUse': ({ hooks }, body, signal) => hooks.preToolUse({ ...body, signal }),
  onElicitation: (host, body, signal) => host.onElicitation({ ...body, signal }),
  getConnectorToken: (host, body, signal) => host.getConnectorToken({ ...body, signal }),
  onSampling: (host, body, signal) => host.onSampling({ ...body, signal }),
  'hooks.elicitation': ({ hooks }, body, signal) => hooks.elicitation({ ...body, signal }),
  'hooks.elicitationResult': ({ hooks }, { request, answer }, signal) =>
    hooks.elicitationResult({ ...request, signal }, answer),
};

/** All questions: the one more that no function of the host answers gives a lock back. */
const QUESTIONS = { ...FUNCTIONS, 'tokenStore.unlock': releaseLock };

/** Every function of the options that the native half has to know of. */
const CALLBACKS = [...Object.keys(FUNCTIONS), 'auditLog'];

/** Names of the functions that these options have, such as `onPermission` or `hooks.elicitation`. */
function callbacksOf(options) {
  return CALLBACKS.filter((name) => {
    const found = name.split('.').reduce((at, part) => at?.[part], options);
    return typeof found === 'function';
  });
}

/** Functions that are called from here. */
const OWN = ['hooks.postToolUse', 'traceContext'];

/** Names of functions among these options that nobody calls: JSON would not even mention them. */
function strayFunctions(options) {
  const known = new Set([...CALLBACKS, ...OWN]);
  const names = (at, prefix) =>
    Object.entries(at ?? {}).flatMap(([name, value]) => (typeof value === 'function' ? [prefix + name] : []));
  const all = [...names(options, ''), ...names(options.hooks, 'hooks.')];
  return all.filter((name) => !known.has(name));
}

/** Gives the native half the answer of a function of the host, or why there is none. */
async function reply(half, question, run) {
  try {
    half.answer(question, JSON.stringify(await run()) ?? 'null', undefined);
  } catch (error) {
    half.answer(question, undefined, describe(error));
  }
}

/** The questions of a manager that are open. */
class Questions {
  #open = new Map();
  /** By number: callbacks of logins under way, and what lets go of locks that are held or waited for. */
  #kept = { logins: new Map(), holds: new Map() };
  #nextLogin = 1;

  /**
   * Puts a question to the host.
   * @param {object} half who asks
   * @param {object} host the manager's options, or those of a view
   */
  async put(half, { question, callback, body }, host) {
    const controller = new AbortController();
    this.#open.set(question, controller);
    await reply(half, question, () => QUESTIONS[callback](host, body, controller.signal, this.#kept));
    this.#open.delete(question);
  }

  /** Nobody wants the answer any more. */
  withdraw(question) {
    this.#open.get(question)?.abort();
    this.#open.delete(question);
  }

  /** Runs a login whose page is opened by a function of its own. */
  async duringLogin(onAuthorizationUrl, run) {
    const login = this.#nextLogin++;
    this.#kept.logins.set(login, onAuthorizationUrl);
    try {
      return await run(login);
    } finally {
      this.#kept.logins.delete(login);
    }
  }
}

module.exports = { callbacksOf, Questions, reply, strayFunctions };
