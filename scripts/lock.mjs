// A lock between the scripts of one checkout, so that `npm start` and `npm test` may run at the same time.
// A folder on disk, because making one is atomic everywhere; a heartbeat, because its owner may die.

import { existsSync, mkdirSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { readIfThere, stateFolder } from './project.mjs';

const HEARTBEAT_MS = 2_000;
/** A lock whose owner has not touched it for this long belongs to nobody, whoever has its process id by now. */
const STALE_MS = 60_000;

/** Runs `body` while no other set-up or build of this checkout is under way. */
export function alone(body) {
  return withLock('setup', body, {
    onWait: () => console.error('setup: waiting for another set-up of this checkout'),
  });
}

/**
 * Does `body` while no other script of this checkout is inside the same lock. Waits as long as it takes; a lock whose
 * owner has died is taken over.
 */
export async function withLock(name, body, { folder = stateFolder, onWait = () => {} } = {}) {
  mkdirSync(folder, { recursive: true });
  const lock = join(folder, `${name}.lock`);
  for (let waiting = false; !take(lock); waiting = true) {
    if (!waiting) onWait();
    if (isStale(lock)) takeAway(lock);
    else await sleep(200);
  }
  const heartbeat = setInterval(() => touch(join(lock, 'owner')), HEARTBEAT_MS).unref();
  try {
    return await body();
  } finally {
    clearInterval(heartbeat);
    rmSync(lock, { recursive: true, force: true });
  }
}

function take(lock) {
  try {
    mkdirSync(lock);
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
  writeFileSync(join(lock, 'owner'), String(process.pid));
  return true;
}

function touch(file) {
  const now = new Date();
  try {
    utimesSync(file, now, now);
  } catch {
    // Somebody removed the lock by hand; nothing to keep alive.
  }
}

function isStale(lock) {
  const owner = readIfThere(join(lock, 'owner'))?.toString();
  if (owner && !isAlive(Number(owner))) return true;
  const witness = owner ? join(lock, 'owner') : lock;
  const touched = statSync(witness, { throwIfNoEntry: false })?.mtimeMs;
  return touched !== undefined && Date.now() - touched > STALE_MS;
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** Renaming is atomic, so of several that find a stale lock only one takes it away. */
function takeAway(lock) {
  const aside = `${lock}.${process.pid}.${Date.now()}`;
  try {
    renameSync(lock, aside);
  } catch {
    return;
  }
  // Between looking and renaming another script may have put a fresh lock there: give that back.
  if (!isStale(aside) && !existsSync(lock)) renameSync(aside, lock);
  else rmSync(aside, { recursive: true, force: true });
}
