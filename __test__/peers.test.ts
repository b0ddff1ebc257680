/** The scripts of the matrix with servers of the other official SDKs: Python's `mcp` and Rust's `rmcp`, in both eras. */
import { judge, type Row } from './laboratory';
import { findPython, pythonServer, rmcpServer } from './peers';

const python = findPython();
if (python === undefined)
  console.warn('skipped: servers of the Python SDK, for there is no Python 3.10 or newer');

const PYTHON = 'Python mcp';
const RUST = 'Rust rmcp';

const TABLE: Row[] = [
  { transport: 'stdio', era: 'legacy', peer: RUST, stdio: rmcpServer('stdio') },
  { transport: 'stdio', era: 'modern', peer: RUST, protocol: 'modern', stdio: rmcpServer('stdio') },
  { transport: 'http', era: 'legacy', peer: RUST, protocol: 'legacy', network: rmcpServer('http') },
  { transport: 'http', era: 'modern', peer: RUST, network: rmcpServer('http') },
];
if (python !== undefined) {
  TABLE.push(
    { transport: 'stdio', era: 'legacy', peer: PYTHON, stdio: pythonServer('stdio') },
    { transport: 'stdio', era: 'modern', peer: PYTHON, protocol: 'modern', stdio: pythonServer('stdio') },
    { transport: 'http', era: 'legacy', peer: PYTHON, protocol: 'legacy', network: pythonServer('http') },
    { transport: 'http', era: 'modern', peer: PYTHON, network: pythonServer('http') },
  );
}

TABLE.forEach(judge);
