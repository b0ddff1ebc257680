/**
 * mcp-switchboard/zoo: servers that misbehave, each in one way, to test hosts against. They run under the Node that runs the
 * program, and listen on loopback only; nothing native is loaded.
 */

/** One server of the zoo. */
export interface ZooAnimal {
  /** Its name. */
  name: string;
  /** Whether it is a program (`command`) or behind a URL (`start`). */
  transport: 'stdio' | 'http';
  /** What it does. */
  does: string;
  /** What a host should keep to. */
  rule: string;
}

/** A running server of the zoo. */
export interface ZooServer {
  /** Where it listens, on loopback. */
  url: string;
  /** Every request so far. */
  requests(): {
    /** HTTP method. */
    verb: string;
    /** Method of the protocol, where there is one. */
    method?: string;
    /** Path of the URL. */
    path: string;
  }[];
  /** Ends it, and every connection to it. */
  close(): Promise<void>;
}

/** All of them. */
export function list(): ZooAnimal[];
/** How a program of the zoo is started: a definition for any host. @throws TypeError `INVALID_ARGUMENT`. */
export function command(name: string): { command: string; args: string[] };
/** Starts a server behind a URL, in this process. @throws TypeError `INVALID_ARGUMENT`. */
export function start(name: string): Promise<ZooServer>;
