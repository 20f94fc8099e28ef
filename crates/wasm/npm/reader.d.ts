/** Bytes of an image: a URL whose server answers range requests, a Blob or File, bytes, or anything that reads ranges. */
export type ImageSource = string | URL | Blob | ArrayBuffer | Uint8Array | RangeSource;

/** Reads ranges of an image. */
export interface RangeSource {
  /** Length of the image in bytes. */
  readonly size: number;
  /** Returns exactly the bytes from `start` to `end`. */
  read(start: number, end: number): Promise<Uint8Array>;
}

export interface OpenOptions {
  /** The module `packfs_wasm.wasm`: compiled, as bytes, or its URL. Default: the file beside this one. */
  module?: WebAssembly.Module | BufferSource | string | URL;
  /** Options for every `fetch` of a URL, for example headers. */
  fetchOptions?: RequestInit;
}

/** What went wrong; `message` says where. */
export type ReaderErrorCode =
  | "NotFound" | "WrongType" | "Damaged" | "Unsupported" | "NoImage" | "Failed"
  /** The bytes could not be fetched. */
  | "Fetch";

export class ReaderError extends Error {
  readonly code: ReaderErrorCode;
}

export interface Entry {
  /** Name in its directory; empty for the root. `%XX` stands for a byte that is not UTF-8, and for `%` itself. */
  name: string;
  kind: "file" | "directory" | "symlink" | "char" | "block" | "fifo" | "socket";
  /** Length in bytes; 0 for all but regular files. */
  size: number;
  /** The 12 permission bits. */
  mode: number;
  uid: number;
  gid: number;
  /** Time of last modification, in seconds since 1970. */
  mtime: number;
  nlink: number;
  /** Target of a symbolic link. */
  target?: string;
  /** Number of the inode in the image. */
  nid: string;
}

export interface ListOptions {
  /** Number of entries to skip. Default: 0. */
  skip?: number;
  /** Maximum number of entries. Default: all. */
  count?: number;
}

export interface ImageInfo {
  format: "squashfs" | "erofs";
  /** Length of the image in bytes. */
  bytes: number;
  /** Number of inodes that the image declares. */
  inodes: number;
}

/** Something in an image that is wrong or unusual. */
export interface Finding {
  /** With `damage`, a reader fails or readers disagree; with `note`, the image is sound. */
  severity: "damage" | "note";
  /** Name of the structure. */
  structure: string;
  /** Offset of the structure in the image; missing if the finding is about the whole image. */
  offset?: number;
  text: string;
}

/** Result of a step of a check. */
export interface CheckStep {
  /** Bytes from the beginning of the image that are checked so far, of `ImageInfo.bytes`. */
  checked: number;
  /** What this step found. */
  findings: Finding[];
}

/** Opens an image. The first listing of most images takes three requests. */
export function open(source: ImageSource, options?: OpenOptions): Promise<Image>;

/** An open image. Paths begin at its root; symbolic links are followed inside it. Calls may overlap. */
export class Image {
  /** Number of requests made and bytes fetched so far. */
  readonly traffic: { requests: number; bytes: number };
  info(): Promise<ImageInfo>;
  /** Returns the attributes of what a path leads to; with `follow: false`, of a symbolic link itself. */
  stat(path: string, options?: { follow?: boolean }): Promise<Entry>;
  /** Returns the entries of a directory by name. */
  list(path: string, options?: ListOptions): Promise<{ entries: Entry[]; total: number }>;
  /** Returns a range of a regular file; the rest of it without `end`. Fewer bytes are returned only at its end. */
  read(path: string, start?: number, end?: number): Promise<Uint8Array>;
  /** Streams a regular file; the next piece is fetched while the last one is used. */
  stream(path: string): ReadableStream<Uint8Array>;
  /** Returns the extended attributes by name. */
  xattrs(path: string): Promise<Map<string, Uint8Array>>;
  /** Visits a directory and everything in it, each directory before what it holds. Links are not followed. */
  walk(path?: string): AsyncGenerator<{ path: string; entry: Entry }>;
  /** Streams a file, or a folder with everything in it, as a tar archive. Sockets are left out. */
  tar(path?: string): ReadableStream<Uint8Array>;
  /**
   * Checks the whole image: all metadata, then all data in steps of 8 MiB, which are fetched one after the other. Leaving the
   * loop ends it. An image without `damage` is sound.
   */
  check(): AsyncGenerator<CheckStep>;
  /** Ends the image: later calls fail. */
  close(): void;
}
