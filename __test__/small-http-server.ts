/** The small server of the zoo, which counts its sessions and does what a test tells it; it ends with the test. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { onTestFinished } from 'vitest';

/** One request as it came. */
export interface Arrived {
  verb: string;
  /** Path of the URL. */
  path: string;
  session?: string;
  id?: number;
  method?: string;
  params?: { arguments?: Record<string, unknown> };
}

/** A running server; `answer` may be replaced at any time. */
export interface SmallServer {
  url: string;
  arrived: Arrived[];
  sessions: number;
  /** Takes a request over by returning `true`. */
  answer: (request: Arrived, response: ServerResponse, raw: IncomingMessage) => boolean | void;
  /** How often a method was asked. */
  count(method: string): number;
  /** Ends every connection without a word. */
  cut(): void;
  /** Takes no connection any more and ends those on which no test is answering. */
  vanish(): void;
  /** Ends for good. */
  close(): Promise<void>;
}

const zoo = createRequire(import.meta.url)('../zoo/http-server.js') as {
  reply(response: ServerResponse, id: number, result: unknown, headers?: Record<string, string>): void;
  smallServer(): Promise<SmallServer>;
};

/** Answers a request with a result. */
export const { reply } = zoo;

/** Starts a server; it ends with the test. */
export async function smallServer(): Promise<SmallServer> {
  const small = await zoo.smallServer();
  onTestFinished(() => small.close());
  return small;
}
