import { availableParallelism } from 'node:os';

import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['__test__/**/*.test.ts'],
    // One process per file: the add-on keeps state per process, and a crash must not take other files along.
    pool: 'forks',
    // Most tests wait for a process or a clock: two files at a time, even on the smallest machine.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    // Tests never ask the keychain of whoever runs them.
    env: { DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent/bus' },
    testTimeout: 30_000,
    hookTimeout: 30_000,
    passWithNoTests: false,
  },
});
