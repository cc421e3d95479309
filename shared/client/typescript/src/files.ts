import { partsOf, received } from "./lines.js";
import type { AnyInit, Transport } from "./transport.js";

/** Options of a transfer. */
export interface TransferOptions {
  signal?: AbortSignal | undefined;
}

/** Copies files to and from an agent's container, and the archives of snapshots. */
export interface Files {
  /** Yields the content of a file as it arrives. */
  getFile(agentId: string, path: string, options?: TransferOptions): AsyncGenerator<Uint8Array, void, void>;
  /** Yields a tar archive of a directory as it arrives. */
  getDirectory(agentId: string, path: string, options?: TransferOptions): AsyncGenerator<Uint8Array, void, void>;
  /** Writes a file. */
  putFile(agentId: string, path: string, content: string | Uint8Array, options?: TransferOptions): Promise<void>;
  /** Extracts a tar archive into a directory. */
  putDirectory(agentId: string, path: string, archive: Uint8Array, options?: TransferOptions): Promise<void>;
  /** Yields the tar archive of a snapshot as it arrives. One that is cut off throws. */
  exportSnapshot(
    agentId: string,
    snapshotId: string,
    options?: TransferOptions,
  ): AsyncGenerator<Uint8Array, void, void>;
}

const filesPath = "/api/v1/agents/{agent_id}/files";
const exportPath = "/api/v1/agents/{agent_id}/snapshots/{snapshot_id}/export";
const bytes = "application/octet-stream";
const tar = "application/x-tar";

export function filesOf(transport: Transport): Files {
  const get = (type: string) => (id: string, path: string, options: TransferOptions = {}) =>
    download(transport, filesPath, { params: { path: { agent_id: id }, query: { path } }, accept: type, ...options });
  const put = (type: string) => async (
    id: string,
    path: string,
    content: string | Uint8Array,
    { signal }: TransferOptions = {},
  ) => {
    const params = { path: { agent_id: id }, query: { path }, header: { "Content-Type": type } };
    await transport.call("put", filesPath, { params, content, signal });
  };
  return {
    getFile: get(bytes),
    getDirectory: get(tar),
    putFile: put(bytes),
    putDirectory: put(tar),
    exportSnapshot: (id, snapshotId, options = {}) =>
      download(transport, exportPath, {
        params: { path: { agent_id: id, snapshot_id: snapshotId } },
        accept: tar,
        ...options,
      }),
  };
}

function download(transport: Transport, path: string, init: AnyInit): AsyncGenerator<Uint8Array, void, void> {
  return received(transport, path, init, (body) => partsOf(body, undefined, init.signal));
}
