// Reads images that packfs and other programs made, from bytes, files and a server, and compares with the source.
// PACKFS names the program. Run by scripts/reader.sh.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, openAsBlob, readFileSync, readdirSync, rmSync, statSync, symlinkSync, linkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Image, ReaderError, open } from "../reader.js";

const packfs = process.env.PACKFS ?? "packfs";
const work = mkdtempSync(join(tmpdir(), "packfs-reader-"));
const root = join(work, "root");
/** Images by name. */
const images = new Map();

/** Numbers that look random, the same on every run. */
function* numbers(seed) {
  let state = seed;
  for (;;) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state >>> 8;
  }
}

function noise(length, seed) {
  const random = numbers(seed);
  return Uint8Array.from({ length }, () => random.next().value & 0xff);
}

function run(program, args) {
  execFileSync(program, args, { cwd: work, stdio: ["ignore", "ignore", "inherit"] });
}

function have(program) {
  const found = spawnSync(program, ["--version"]).error === undefined;
  assert.ok(found || !process.env.PACKFS_REQUIRE_ORACLES, `${program} is missing`);
  return found;
}

before(() => {
  mkdirSync(join(root, "etc/deep/deeper"), { recursive: true });
  mkdirSync(join(root, "many"));
  writeFileSync(join(root, "etc/motd"), "Welcome.\n");
  linkSync(join(root, "etc/motd"), join(root, "etc/deep/again"));
  symlinkSync("../etc/motd", join(root, "many/link"));
  writeFileSync(join(root, "etc/größe 100% & more"), "name");
  writeFileSync(join(root, "etc/empty"), "");
  writeFileSync(join(root, "noise"), noise(5_000_001, 7));
  writeFileSync(join(root, "text"), Array.from({ length: 300_000 }, (_, n) => `line ${n} of ${n * 7919}\n`).join(""));
  for (let n = 0; n < 3000; n += 1) {
    writeFileSync(join(root, `many/file-${n}`), `${n}\n`.repeat(n % 200));
  }
  const builds = [
    ["gzip.squashfs", "squashfs", ["--codec", "gzip"]],
    ["zstd.squashfs", "squashfs", ["--codec", "zstd:3", "--block-size", "1M"]],
    ["lz4.squashfs", "squashfs", ["--codec", "lz4"]],
    ["lz4.erofs", "erofs", ["--codec", "lz4hc", "--target-kernel", "6.1"]],
    ["zstd.erofs", "erofs", ["--codec", "zstd:3", "--target-kernel", "6.12"]],
    ["xz.squashfs", "squashfs", ["--codec", "xz:6:bcj=auto"]],
    ["lzo.squashfs", "squashfs", ["--codec", "lzo"]],
    ["lzma.erofs", "erofs", ["--codec", "lzma", "--target-kernel", "6.1"]],
    ["deflate.erofs", "erofs", ["--codec", "deflate", "--target-kernel", "6.12"]],
  ];
  for (const [name, format, options] of builds) {
    run(packfs, ["build", "root", "-o", name, "--format", format, "-q", ...options]);
    images.set(name, join(work, name));
  }
  if (have("mksquashfs")) {
    run("mksquashfs", ["root", "peer.squashfs", "-comp", "gzip", "-quiet", "-no-progress"]);
    images.set("peer.squashfs", join(work, "peer.squashfs"));
    run("mksquashfs", ["root", "peer-xz.squashfs", "-comp", "xz", "-Xbcj", "x86,arm", "-quiet", "-no-progress"]);
    images.set("peer-xz.squashfs", join(work, "peer-xz.squashfs"));
  }
  if (have("mkfs.erofs")) {
    run("mkfs.erofs", ["-zlz4", "--quiet", "peer.erofs", "root"]);
    images.set("peer.erofs", join(work, "peer.erofs"));
  }
});

after(() => rmSync(work, { recursive: true, force: true }));

/** Serves a file as `answer` says. */
async function serve(answer, use) {
  const server = createServer(answer);
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  try {
    await use(`http://127.0.0.1:${server.address().port}/image`);
  } finally {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  }
}

function answerRanges(bytes, etag = () => '"1"') {
  return (request, response) => {
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range);
    const end = Math.min(Number(to) + 1, bytes.length);
    response.writeHead(206, { "Content-Range": `bytes ${from}-${end - 1}/${bytes.length}`, ETag: etag() });
    response.end(bytes.subarray(Number(from), end));
  };
}

async function collect(stream) {
  const pieces = [];
  for await (const piece of stream) {
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

const sizes = (path) => {
  const stat = statSync(join(root, path), { throwIfNoEntry: false });
  return stat?.isFile() ? stat.size : 0;
};

test("every file of every image reads as its source, from a file", async () => {
  for (const [name, path] of images) {
    const image = await open(await openAsBlob(path));
    const info = await image.info();
    assert.equal(info.format, name.split(".")[1]);
    assert.equal(info.bytes, statSync(path).size);
    let files = 0;
    for await (const { path: at, entry } of image.walk()) {
      const source = decodeURIComponent(at.slice(1));
      if (entry.kind === "file") {
        assert.equal(entry.size, sizes(source), `${name}: ${source}`);
        assert.ok(readFileSync(join(root, source)).equals(await image.read(at)), `${name}: ${source}`);
        files += 1;
      } else if (entry.kind === "directory") {
        assert.equal((await image.list(at)).total, readdirSync(join(root, source)).length);
      } else {
        assert.deepEqual([entry.kind, entry.target], ["symlink", "../etc/motd"]);
      }
    }
    assert.equal(files, 3000 + 6);
  }
});

test("ranges, links and many readers at once", async () => {
  for (const path of images.values()) {
    const image = await open(readFileSync(path));
    const text = readFileSync(join(root, "text"));
    const random = numbers(1);
    const reads = Array.from({ length: 40 }, async () => {
      const start = random.next().value % text.length;
      const end = start + (random.next().value % 300_000);
      assert.ok(text.subarray(start, end).equals(await image.read("/text", start, end)), `${path}: ${start} to ${end}`);
    });
    await Promise.all(reads);
    assert.equal(new TextDecoder().decode(await image.read("many/link")), "Welcome.\n");
    assert.equal((await image.stat("many/link", { follow: false })).kind, "symlink");
    assert.ok(readFileSync(join(root, "noise")).equals(await collect(image.stream("noise"))));
    const part = await image.list("many", { skip: 2990, count: 7 });
    assert.deepEqual([part.entries.length, part.total], [7, 3001]);
  }
});

test("a folder as a tar archive is what tar extracts", async () => {
  for (const [name, path] of images) {
    const image = await open(readFileSync(path));
    const place = join(work, `tar-${name}`);
    mkdirSync(place);
    // Twice: an archive must not refer to names of the one before.
    await collect(image.tar("/etc/deep"));
    execFileSync("tar", ["-x", "-C", place], { input: await collect(image.tar()) });
    assert.equal(spawnSync("diff", ["-r", "--no-dereference", root, place]).status, 0, name);
    assert.equal(statSync(join(place, "etc/motd")).ino, statSync(join(place, "etc/deep/again")).ino);
    const below = join(work, `below-${name}`);
    mkdirSync(below);
    execFileSync("tar", ["-x", "-C", below], { input: await collect(image.tar("/etc/deep")) });
    assert.deepEqual(readdirSync(below), ["deep"]);
  }
});

test("a server is asked for little", async () => {
  for (const [name, path] of images) {
    const bytes = readFileSync(path);
    await serve(answerRanges(bytes), async (url) => {
      const image = await open(url);
      await image.list("/");
      assert.ok(image.traffic.requests <= 4 && image.traffic.bytes <= 512 << 10, `${name}: ${JSON.stringify(image.traffic)}`);
      const before = image.traffic.bytes;
      const got = await image.read("noise", 2_000_000, 2_000_100);
      assert.ok(readFileSync(join(root, "noise")).subarray(2_000_000, 2_000_100).equals(got));
      assert.ok(image.traffic.bytes - before <= 2 << 20, `${name}: ${image.traffic.bytes - before} bytes for 100`);
    });
  }
});

test("errors say what went wrong", async () => {
  const bytes = readFileSync(images.get("zstd.squashfs"));
  const fails = (promise, code, text) =>
    assert.rejects(promise, (error) => error instanceof ReaderError && error.code === code && text.test(error.message));
  const image = await open(bytes);
  await fails(image.read("no/such"), "NotFound", /no\/such/);
  await fails(image.read("etc"), "WrongType", /etc/);
  await fails(image.list("etc/motd"), "WrongType", /etc\/motd/);
  await fails(open(new Uint8Array(5000)), "NoImage", /neither/);
  await fails(open(new Uint8Array(0)), "NoImage", /neither/);
  await fails(open(bytes.subarray(0, bytes.length - 20_000)), "Damaged", /superblock|ends/);
  await assert.rejects(open(7), TypeError);
  await serve((_, response) => response.writeHead(404).end(), (url) => fails(open(url), "Fetch", /404/));
  await serve((_, response) => response.writeHead(200).end("all"), (url) => fails(open(url), "Fetch", /range requests/));
  let version = 1;
  await serve(answerRanges(bytes, () => `"${version}"`), async (url) => {
    const changing = await open(url);
    version = 2;
    await fails(changing.read("noise"), "Fetch", /changed/);
    version = 1;
    assert.equal((await changing.read("noise", 0, 9)).length, 9, "a failed request may be repeated");
    changing.close();
    await fails(changing.info(), "Failed", /closed/);
  });
  const failing = { size: bytes.length, read: async () => { throw new Error("cable cut"); } };
  await fails(open(failing), "Fetch", /cable cut/);
  const short = { size: bytes.length, read: async () => new Uint8Array(1) };
  await fails(open(short), "Fetch", /1 came/);
  assert.ok(image instanceof Image);
});

test("bytes of another version or place are refused", async () => {
  const bytes = readFileSync(images.get("lz4.squashfs"));
  const part = (response, first, end, headers, length = bytes.length) => {
    response.writeHead(206, { "Content-Range": `bytes ${first}-${end - 1}/${length}`, ...headers });
    response.end(bytes.subarray(first, end));
  };
  const rows = [
    ["neither ETag nor Last-Modified", (response, first, end) => part(response, first, end, {})],
    ["has changed", (response, first, end) => part(response, first, end, { ETag: first === 0 ? '"1"' : '"2"' })],
    ["has changed", (response, first, end) => part(response, first, end, { ETag: '"1"' }, bytes.length + (first > 0))],
    // As a cache does that does not look at the range.
    [", and sent bytes 0-", (response, first, end) => part(response, 0, end - first, { ETag: '"1"' })],
    [null, (response, first, end) => part(response, first, end, { "Last-Modified": "Mon, 23 Nov 2026 10:00:00 GMT" })],
  ];
  for (const [why, answer] of rows) {
    const ranges = (request, response) => {
      const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range);
      answer(response, Number(from), Math.min(Number(to) + 1, bytes.length));
    };
    await serve(ranges, async (url) => {
      const read = async () => (await open(url)).read("/noise");
      if (why === null) {
        assert.equal((await read()).length, 5_000_001);
      } else {
        await assert.rejects(read, (error) => error instanceof ReaderError && error.message.includes(why), why);
      }
    });
  }
});

test("a check reads everything once and names damage", async () => {
  for (const [name, path] of images) {
    const bytes = readFileSync(path);
    const collectCheck = async (image) => {
      const steps = [];
      for await (const step of image.check()) {
        steps.push(step);
      }
      return steps;
    };
    await serve(answerRanges(bytes), async (url) => {
      const image = await open(url);
      const steps = await collectCheck(image);
      assert.deepEqual(steps.flatMap(({ findings }) => findings).filter(({ severity }) => severity === "damage"), [], name);
      assert.equal(steps.at(-1).checked, bytes.length);
      const { requests, bytes: fetched } = image.traffic;
      assert.ok(fetched <= bytes.length + (1 << 20) && requests <= 20, `${name}: ${requests} requests, ${fetched} bytes`);
    });
    const damaged = Uint8Array.from(bytes);
    // In several places: what is stored as it is has no checksum.
    for (let place = 1; place < 10; place += 2) {
      damaged.set(noise(3000, place), Math.floor((damaged.length * place) / 10));
    }
    const found = (await collectCheck(await open(damaged))).flatMap(({ findings }) => findings);
    assert.ok(found.some(({ severity, offset }) => severity === "damage" && offset !== undefined), name);
  }
  // Of many steps, the first ones come while the others are still to be fetched.
  const long = join(work, "long");
  mkdirSync(long);
  for (let n = 0; n < 5; n += 1) {
    writeFileSync(join(long, `${n}`), noise(5_000_000, n));
  }
  run(packfs, ["build", "long", "-o", "long.squashfs", "-q"]);
  const image = await open(await openAsBlob(join(work, "long.squashfs")));
  for await (const { checked } of image.check()) {
    assert.ok(checked < 10 << 20);
    assert.ok(image.traffic.bytes < 12 << 20, `${image.traffic.bytes} bytes for one step`);
    break;
  }
  assert.equal((await image.list("/")).total, 5, "an image is usable after a check that was left");
});

test("damage anywhere ends in an answer", async () => {
  for (const name of ["gzip.squashfs", "xz.squashfs", "lz4.erofs", "lzma.erofs", "zstd.erofs"]) {
    const bytes = readFileSync(images.get(name));
    const random = numbers(3);
    for (let round = 0; round < 60; round += 1) {
      const damaged = Uint8Array.from(bytes);
      // The metadata of SquashFS is at the end, that of EROFS at the beginning.
      const zone = Math.min(bytes.length, 60_000);
      const first = round % 3 === 0 ? 0 : name.endsWith("squashfs") ? bytes.length - zone : 0;
      for (let change = 0; change < 4; change += 1) {
        damaged[first + (random.next().value % zone)] = random.next().value & 0xff;
      }
      try {
        const image = await open(damaged);
        await image.list("/many");
        await image.read("text");
      } catch (error) {
        assert.ok(error instanceof ReaderError && !/stopped/.test(error.message), `${name}, round ${round}: ${error.stack}`);
      }
    }
  }
});
