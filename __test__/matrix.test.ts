/**
 * Transport × era: one behaviour everywhere, with servers made with both versions of the official TypeScript SDK. The
 * older way over HTTP (`sse`) has no stateless era: it belongs to revision 2024-11-05.
 */
import type { SdkServer, SdkTransport } from '..';
import { labServer as labServerV1 } from './fixtures/peers/sdk-v1.mjs';
import { serve as serveV2 } from './fixtures/peers/sdk-v2.mjs';
import { fixture } from './harness';
import { judge, type Command, type Row } from './laboratory';

const v1 = (how: string) => (): Command => [process.execPath, fixture('peers', 'sdk-v1.mjs'), how];
const v2 = (how: string, era: string) => (): Command => [
  process.execPath,
  fixture('peers', 'sdk-v2.mjs'),
  how,
  era,
];

const V1 = 'TypeScript SDK v1';
const V2 = 'TypeScript SDK v2';
const V2_BOTH = 'TypeScript SDK v2 of both eras';

function insideV1(): SdkServer {
  return labServerV1((mcp: { close(): Promise<void> }) => void mcp.close());
}

function insideV2(era: 'both' | 'modern') {
  return (): SdkServer => ({
    connect: async (transport: SdkTransport) => {
      const open: { close(): Promise<void> } = serveV2(era, transport, { die: () => void open.close() });
    },
  });
}

const TABLE: Row[] = [
  { transport: 'stdio', era: 'legacy', peer: V1, stdio: v1('stdio') },
  { transport: 'stdio', era: 'legacy', peer: V2_BOTH, stdio: v2('stdio', 'both') },
  { transport: 'stdio', era: 'modern', peer: V2, stdio: v2('stdio', 'modern') },
  { transport: 'http', era: 'legacy', peer: V1, network: v1('http') },
  { transport: 'http', era: 'legacy', peer: V2_BOTH, protocol: 'legacy', network: v2('http', 'both') },
  { transport: 'http', era: 'modern', peer: V2_BOTH, network: v2('http', 'both') },
  { transport: 'sse', era: 'legacy', peer: V1, network: v1('sse') },
  { transport: 'ws', era: 'legacy', peer: V1, network: v1('ws') },
  { transport: 'ws', era: 'modern', peer: V2, network: v2('ws', 'modern') },
  { transport: 'sdk', era: 'legacy', peer: V1, inside: insideV1 },
  { transport: 'sdk', era: 'legacy', peer: V2_BOTH, inside: insideV2('both') },
  { transport: 'sdk', era: 'modern', peer: V2, inside: insideV2('modern') },
];

TABLE.forEach(judge);
