// Lists and reads SquashFS and EROFS images. The module in WebAssembly says which bytes it needs; they are fetched here.

const JSON_ANSWER = 0;
const BYTES_ANSWER = 1;
const MISSING_ANSWER = 2;

/** Length of a read: long enough to make few requests, short enough to decode without freezing a page. */
const PIECE_LEN = 1 << 20;
/** Number of attempts after which a request has gone wrong: each one fetches bytes that no earlier one had. */
const ATTEMPTS_MAX = 10_000;
/** Bytes fetched to learn how long an image on a server is: those that the reader asks for first. */
const HEAD_LEN = 64 << 10;
/** Length of the blocks of a tar archive. */
const TAR_BLOCK = 512;

export class ReaderError extends Error {
  constructor(code, message, options) {
    super(message, options);
    this.name = "ReaderError";
    this.code = code;
  }
}

class BytesSource {
  constructor(bytes) {
    this.bytes = bytes;
    this.size = bytes.length;
  }

  async read(start, end) {
    return this.bytes.subarray(start, end);
  }
}

class BlobSource {
  constructor(blob) {
    this.blob = blob;
    this.size = blob.size;
  }

  async read(start, end) {
    return new Uint8Array(await this.blob.slice(start, end).arrayBuffer());
  }
}

class UrlSource {
  constructor(url, fetchOptions) {
    this.url = url;
    this.fetchOptions = fetchOptions;
    this.size = 0;
    this.validator = null;
    this.head = null;
  }

  async request(start, end) {
    const headers = new Headers(this.fetchOptions?.headers);
    headers.set("Range", `bytes=${start}-${end - 1}`);
    const response = await fetch(this.url, { ...this.fetchOptions, headers });
    if (response.status === 206) {
      return response;
    }
    // A server without range requests sends everything, which nobody waits for.
    await response.body?.cancel();
    const why = response.ok
      ? "the server does not answer range requests: serve the file with one that does"
      : `the server answered ${response.status} ${response.statusText}`.trim();
    throw new ReaderError("Fetch", `${this.url}: ${why}`);
  }

  /** Fetches the beginning, and learns the length of the image and what tells whether it changes later. */
  async connect() {
    const response = await this.request(0, HEAD_LEN);
    const range = /^bytes 0-\d+\/(\d+)$/.exec(response.headers.get("Content-Range") ?? "");
    if (range === null) {
      await response.body?.cancel();
      const why = "the server does not say how long the file is; across origins it has to expose Content-Range";
      throw new ReaderError("Fetch", `${this.url}: ${why}`);
    }
    this.size = Number(range[1]);
    this.validator = versionOf(response);
    if (this.validator === null && this.size > HEAD_LEN) {
      await response.body?.cancel();
      const why = "the server sends neither ETag nor Last-Modified: a change of the file would not be noticed";
      throw new ReaderError("Fetch", `${this.url}: ${why}`);
    }
    this.head = new Uint8Array(await response.arrayBuffer());
    return this;
  }

  async read(start, end) {
    if (this.head !== null && end <= this.head.length) {
      return this.head.subarray(start, end);
    }
    const response = await this.request(start, end);
    const range = response.headers.get("Content-Range") ?? "";
    if (versionOf(response) !== this.validator || !range.endsWith(`/${this.size}`)) {
      await response.body?.cancel();
      throw new ReaderError("Fetch", `${this.url}: the file has changed on the server: open it again`);
    }
    // A cache on the way may give the same bytes for every range.
    if (range !== `bytes ${start}-${end - 1}/${this.size}`) {
      await response.body?.cancel();
      throw new ReaderError("Fetch", `${this.url}: the server was asked for bytes from ${start} on, and sent ${range}`);
    }
    return new Uint8Array(await response.arrayBuffer());
  }
}

/** Returns what tells versions of a file on a server apart. */
function versionOf(response) {
  return response.headers.get("ETag") ?? response.headers.get("Last-Modified");
}

async function openSource(source, fetchOptions) {
  if (typeof source === "string" || source instanceof URL) {
    return new UrlSource(String(source), fetchOptions).connect();
  }
  if (typeof Blob !== "undefined" && source instanceof Blob) {
    return new BlobSource(source);
  }
  if (source instanceof ArrayBuffer) {
    return new BytesSource(new Uint8Array(source));
  }
  if (source instanceof Uint8Array) {
    return new BytesSource(source);
  }
  if (typeof source?.read === "function" && Number.isSafeInteger(source.size)) {
    return source;
  }
  throw new TypeError("an image is a URL, a Blob, bytes, or an object with `size` and `read`");
}

let defaultModule = null;

async function loadModule(module) {
  if (module instanceof WebAssembly.Module) {
    return module;
  }
  if (module instanceof ArrayBuffer || ArrayBuffer.isView(module)) {
    return WebAssembly.compile(module);
  }
  const url = new URL(module ?? new URL("packfs_wasm.wasm", import.meta.url));
  if (url.protocol === "file:" && typeof process !== "undefined") {
    const { readFile } = await import("node:fs/promises");
    return WebAssembly.compile(await readFile(url));
  }
  const response = await fetch(url);
  if (!response.ok) {
    throw new ReaderError("Fetch", `${url}: the server answered ${response.status}`);
  }
  return WebAssembly.compile(await response.arrayBuffer());
}

/** Opens an image. */
export async function open(source, options = {}) {
  defaultModule ??= options.module === undefined ? loadModule() : null;
  const module = options.module === undefined ? defaultModule : loadModule(options.module);
  let compiled;
  try {
    compiled = await module;
  } catch (error) {
    // The next call tries again: a network may be back then.
    defaultModule = null;
    throw error;
  }
  const image = new Image(compiled, await openSource(source, options.fetchOptions));
  await image.start();
  return image;
}

/** An open image. */
export class Image {
  #module;
  #exports = null;
  #source;
  #last = Promise.resolve();

  constructor(module, source) {
    this.#module = module;
    this.#source = source;
    this.traffic = { requests: 0, bytes: 0 };
  }

  async start() {
    await this.#instantiate();
    await this.info();
  }

  async #instantiate() {
    const instance = await WebAssembly.instantiate(this.#module, {});
    this.#exports = instance.exports;
    this.#exports.packfs_open(BigInt(this.#source.size));
  }

  #pass(bytes) {
    const at = this.#exports.packfs_input(bytes.length) >>> 0;
    new Uint8Array(this.#exports.memory.buffer, at, bytes.length).set(bytes);
  }

  /** Tries a request with the bytes that are there. */
  #attempt(request) {
    this.#pass(request);
    const kind = this.#exports.packfs_attempt();
    const at = this.#exports.packfs_output() >>> 0;
    const answer = new Uint8Array(this.#exports.memory.buffer, at, this.#exports.packfs_output_len());
    return kind === BYTES_ANSWER ? { kind, value: answer.slice() } : { kind, value: JSON.parse(new TextDecoder().decode(answer)) };
  }

  async #fetchRange(start, end) {
    let bytes;
    try {
      bytes = await this.#source.read(start, end);
    } catch (error) {
      if (error instanceof ReaderError) {
        throw error;
      }
      throw new ReaderError("Fetch", `bytes ${start} to ${end - 1} could not be read: ${error.message}`, { cause: error });
    }
    if (bytes.length !== end - start) {
      throw new ReaderError("Fetch", `bytes ${start} to ${end - 1}: ${bytes.length} came`);
    }
    this.traffic.requests += 1;
    this.traffic.bytes += bytes.length;
    return bytes;
  }

  async #run(request) {
    const text = new TextEncoder().encode(JSON.stringify(request));
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
      if (this.#exports === null) {
        throw new ReaderError("Failed", "the image is closed");
      }
      let answer;
      try {
        answer = this.#attempt(text);
      } catch (error) {
        // A trap, for example without memory, leaves the instance in an unknown state: the next call gets a new one.
        await this.#instantiate();
        throw new ReaderError("Failed", `the reader stopped: ${error.message}`, { cause: error });
      }
      if (answer.kind === MISSING_ANSWER) {
        const pieces = await Promise.all(answer.value.map(([start, end]) => this.#fetchRange(start, end)));
        if (this.#exports === null) {
          throw new ReaderError("Failed", "the image is closed");
        }
        pieces.forEach((bytes, index) => {
          this.#pass(bytes);
          this.#exports.packfs_supply(BigInt(answer.value[index][0]));
        });
      } else if (answer.kind === JSON_ANSWER || answer.kind === BYTES_ANSWER) {
        return answer.value;
      } else {
        throw new ReaderError(answer.value.code, answer.value.message);
      }
    }
    throw new ReaderError("Failed", "the request needs too many parts of the image");
  }

  /** Makes a request after those before it: an attempt must find the pages of its own request. */
  #ask(request) {
    const result = this.#last.then(() => this.#run(request));
    this.#last = result.catch(() => {});
    return result;
  }

  info() {
    return this.#ask({ do: "info" });
  }

  stat(path, { follow = true } = {}) {
    return this.#ask({ do: "stat", path, follow });
  }

  list(path, { skip = 0, count = 0xffff_ffff } = {}) {
    return this.#ask({ do: "list", path, skip, count });
  }

  #readPiece(nid, offset, length) {
    return this.#ask({ do: "read", nid, offset, length });
  }

  async #regular(path) {
    const entry = await this.stat(path);
    if (entry.kind !== "file") {
      throw new ReaderError("WrongType", `${path}: not a regular file`);
    }
    return entry;
  }

  async read(path, start = 0, end = Infinity) {
    const entry = await this.#regular(path);
    const to = Math.min(end, entry.size);
    const bytes = new Uint8Array(Math.max(0, to - start));
    for (let offset = start; offset < to; offset += PIECE_LEN) {
      const piece = await this.#readPiece(entry.nid, offset, Math.min(PIECE_LEN, to - offset));
      bytes.set(piece, offset - start);
    }
    return bytes;
  }

  /** Returns the pieces of a file; each is requested while the one before is used. */
  async *#pieces(entry) {
    const request = (offset) => {
      const piece = this.#readPiece(entry.nid, offset, Math.min(PIECE_LEN, entry.size - offset));
      // Whoever stops reading never asks for its result.
      piece.catch(() => {});
      return piece;
    };
    let next = entry.size > 0 ? request(0) : null;
    for (let offset = 0; offset < entry.size; offset += PIECE_LEN) {
      const piece = await next;
      next = offset + PIECE_LEN < entry.size ? request(offset + PIECE_LEN) : null;
      yield piece;
    }
  }

  async *#fileStream(path) {
    yield* this.#pieces(await this.#regular(path));
  }

  stream(path) {
    return streamOf(this.#fileStream(path));
  }

  async xattrs(path) {
    const listed = await this.#ask({ do: "xattrs", path });
    const decode = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    return new Map(listed.map(({ name, value }) => [name, decode(value)]));
  }

  async *walk(path = "/") {
    const root = await this.stat(path, { follow: false });
    const start = path.replace(/\/+$/, "");
    yield { path: start === "" ? "/" : start, entry: root };
    // A list of directories rather than recursion: an image may nest them deeper than a stack is.
    const waiting = root.kind === "directory" ? [start] : [];
    while (waiting.length > 0) {
      const directory = waiting.pop();
      const { entries } = await this.list(directory === "" ? "/" : directory);
      for (const entry of entries) {
        yield { path: `${directory}/${entry.name}`, entry };
      }
      const below = entries.filter((entry) => entry.kind === "directory");
      waiting.push(...below.reverse().map((entry) => `${directory}/${entry.name}`));
    }
  }

  async *#archive(path) {
    // In the archive, the folder has its own name, not the way that leads to it.
    const top = path.replace(/\/+$/, "");
    const above = top.slice(0, top.lastIndexOf("/") + 1);
    const firstPlaces = new Map();
    for await (const { path: at, entry } of this.walk(path)) {
      if (entry.kind === "socket") {
        continue;
      }
      const place = at === "/" ? "" : at.slice(above.length).replace(/^\/+/, "");
      if (place === "" && entry.kind === "directory") {
        continue;
      }
      const mayBeLinked = entry.nlink > 1 && entry.kind !== "directory";
      const firstPlace = mayBeLinked ? (firstPlaces.get(entry.nid) ?? null) : null;
      yield await this.#ask({ do: "tarHeader", path: at, place, firstPlace });
      if (mayBeLinked && firstPlace === null) {
        firstPlaces.set(entry.nid, place);
      }
      if (entry.kind === "file" && firstPlace === null) {
        yield* this.#pieces(entry);
        const padding = (TAR_BLOCK - (entry.size % TAR_BLOCK)) % TAR_BLOCK;
        if (padding > 0) {
          yield new Uint8Array(padding);
        }
      }
    }
    yield new Uint8Array(2 * TAR_BLOCK);
  }

  async *check() {
    let steps = 1;
    for (let step = 0; step < steps; step += 1) {
      const { checked, findings, ...answer } = await this.#ask({ do: "check", step });
      steps = answer.steps;
      yield { checked, findings };
    }
  }

  tar(path = "/") {
    return streamOf(this.#archive(path));
  }

  close() {
    this.#exports = null;
  }
}

function streamOf(pieces) {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await pieces.next();
      if (done) {
        controller.close();
      } else {
        controller.enqueue(value);
      }
    },
    async cancel() {
      await pieces.return();
    },
  });
}
