/** The reference relay: the other end of a {@link Bridge}, for anyone to host. Node alone; see docs/bridge-protocol.md. */

import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { JsonObject } from './index.js';

/** Options of a {@link BridgeRelay}; `authorize` or `tokens` is required. */
export interface BridgeRelayOptions {
  /**
   * Whether a token may do this: an `agent` serves the session, a `controller` drives it. Asked for every request;
   * whatever throws is a no. After 10 failures within a minute an address is not listened to.
   */
  authorize?: (request: {
    /** What stands behind `Bearer`. */
    token: string;
    /** Which end it is. */
    role: 'agent' | 'controller';
    /** The session; `undefined` where one is being made. */
    sessionId: string | undefined;
    /** The request. */
    request: IncomingMessage;
  }) => boolean | Promise<boolean>;
  /** One fixed token for each end, compared in constant time. An end without a token cannot speak. */
  tokens?: { agent?: string; controller?: string };
  /** Origins of pages that may speak to the relay. Default none: a request with an `Origin` is refused. */
  allowedOrigins?: string[];
  /** Values of `Host` that are answered. Default: all; on a loopback address only those of loopback. */
  allowedHosts?: string[];
  /**
   * Whether an address is not listened to after ten failures in a minute. Default `true`. Behind a proxy, where all
   * requests come from one address, let the proxy limit them and switch this off.
   */
  limitFailures?: boolean;
  /** Shortest time without a sign of life after which an agent counts as gone, in ms. Default three heartbeats. */
  leaseMs?: number;
  /** Largest message in bytes. Default 16 777 216 (16 MiB). Above it: status 413. */
  maxMessageBytes?: number;
  /** Messages kept of each session in either direction. Default 10 000. */
  maxRetained?: number;
  /** Sessions at a time. Default 1000. */
  maxSessions?: number;
}

/** What a relay emits. */
export interface BridgeRelayEvents {
  /** A session was made. */
  session: [session: RelaySession];
  /** An agent sent a message: each once, in order, numbered from 1. */
  message: [session: RelaySession, message: JsonObject, number: number];
}

/** The reference relay. */
export class BridgeRelay extends EventEmitter<BridgeRelayEvents> {
  /** @throws TypeError `INVALID_ARGUMENT`, also without `authorize` and any token. */
  constructor(options: BridgeRelayOptions);
  /**
   * Listens; called again, at one more address. Default: any free port of 127.0.0.1.
   * @throws TypeError `INVALID_ARGUMENT`; what Node says of an address that is taken.
   */
  listen(port?: number, host?: string): Promise<{ url: string; port: number }>;
  /** Answers one request, for a server of your own. */
  handle(request: IncomingMessage, response: ServerResponse): Promise<void>;
  /** Answers one upgrade, for a server of your own. */
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void>;
  /** The session of an id; made where there is none. @throws Error for what is no id, or above `maxSessions`. */
  session(id: string): RelaySession;
  /** Every session there is. */
  readonly sessions: RelaySession[];
  /** Ends every stream and stops listening. Sessions stay; `listen()` opens it again. */
  close(): Promise<void>;
}

/** What a session emits. */
export interface RelaySessionEvents {
  /** The agent sent a message. */
  message: [message: JsonObject, number: number];
  /** Whether an agent serves the session. */
  state: ['online' | 'offline'];
}

/** One session of a relay. */
export class RelaySession extends EventEmitter<RelaySessionEvents> {
  /** Its id. */
  readonly id: string;
  /** Whether an agent serves it now. */
  readonly online: boolean;
  /** Whether it is archived: nobody may serve it. */
  readonly archived: boolean;
  /** Epoch of the registration. */
  readonly epoch: number;
  /** Number of the agent's last message. */
  readonly received: number;
  /**
   * Sends the agent a message, now or when it comes back; gives its sequence number. Throws when it is no object, too large
   * (`maxMessageBytes`), too much waits already, or the session is archived.
   */
  send(message: JsonObject): number;
  /** A message of the agent by its number, where it is still kept. */
  message(number: number): JsonObject | undefined;
}
