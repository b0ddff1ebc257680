/**
 * mcp-switchboard/react: the servers of a manager in a tree of React components. React 18 or newer is the program's own; this
 * entry does not load the native part, the manager comes from the program.
 */
import type { ReactElement, ReactNode } from 'react';
import type { McpManager, Prompt, Resource, ServerStatus, Tool } from '../index.js';

/** Properties of {@link McpConnectionProvider}. */
export interface McpConnectionProviderProps {
  /** The manager whose servers the components below see. The provider neither connects nor closes it. */
  manager: McpManager;
  /** The components that may use the hooks. */
  children?: ReactNode;
}

/**
 * Gives a manager to all components below. Inside of another provider the nearer one counts; a new `manager` takes the
 * place of the old one at once.
 * @throws TypeError `INVALID_ARGUMENT` where `manager` is none.
 */
export function McpConnectionProvider(props: McpConnectionProviderProps): ReactElement;

/**
 * The status of every server, sorted by name; the component renders again when one changes. A status that has not changed
 * is the same object as before, the list too where none has; `lastContactAt` alone is no change. The list is empty before the
 * manager has read its configuration (`load()` or `connect()`).
 * @throws Error outside of a provider.
 */
export function useMcpServers(): readonly ServerStatus[];

/**
 * Connects a server anew and gives its status and lists, as {@link McpManager.reconnect}. The same function for the life of
 * the manager, so that it may be a dependency of effects.
 * @throws Error outside of a provider.
 */
export function useMcpReconnect(): (
  server: string,
  options?: { signal?: AbortSignal },
) => Promise<{ status: ServerStatus; tools: Tool[]; prompts: Prompt[]; resources: Resource[] }>;

/**
 * Switches a server on or off, as {@link McpManager.setServerEnabled}; without `enabled` to the state that it is not in.
 * The same function for the life of the manager.
 * @throws Error outside of a provider.
 */
export function useMcpToggle(): (
  server: string,
  enabled?: boolean,
  options?: {
    /** Also for later runs. Default `false`. */
    persist?: boolean;
    signal?: AbortSignal;
  },
) => Promise<ServerStatus>;
