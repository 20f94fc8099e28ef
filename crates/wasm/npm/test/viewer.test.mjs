// Opens an image with the page in a browser. PACKFS names the program. Run by scripts/reader.sh.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const packfs = process.env.PACKFS ?? "packfs";
const page = fileURLToPath(new URL("../../viewer.html", import.meta.url));

/** Sends the page's elements to the server once an image is open, or cannot be opened, and checked if that is wanted. */
const REPORTER = `<script>
let isCheckDue = new URLSearchParams(location.search).has("check");
new MutationObserver(() => {
  if (/^(Choose|Opening|Checking)/.test(document.getElementById("status").textContent)) {
    return;
  }
  if (isCheckDue) {
    isCheckDue = false;
    document.getElementById("check").click();
  } else {
    fetch("/report", { method: "POST", body: document.documentElement.outerHTML });
  }
}).observe(document.getElementById("status"), { childList: true });
</script>`;

/** Serves the page and images, with answers to ranges, and passes on what the page reports. */
class Site {
  constructor(files) {
    this.files = files;
    this.report = () => {};
    this.server = createServer((request, response) => this.answer(request, response));
  }

  async start() {
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    this.address = `http://127.0.0.1:${this.server.address().port}`;
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((done) => this.server.close(done));
  }

  async answer(request, response) {
    const { pathname } = new URL(request.url, "http://localhost");
    const bytes = this.files.get(pathname);
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
    if (pathname === "/report") {
      const pieces = [];
      for await (const piece of request) {
        pieces.push(piece);
      }
      response.writeHead(204).end();
      this.report(Buffer.concat(pieces).toString());
    } else if (bytes === undefined) {
      response.writeHead(404).end();
    } else if (range === null) {
      response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" }).end(bytes);
    } else {
      const end = Math.min(Number(range[2]) + 1, bytes.length);
      response.writeHead(206, { "Content-Range": `bytes ${range[1]}-${end - 1}/${bytes.length}`, ETag: '"1"' });
      response.end(bytes.subarray(Number(range[1]), end));
    }
  }

  /** Opens the page with an image in a browser and returns its elements. */
  async open(image, profile, options = "") {
    const reported = new Promise((done) => {
      this.report = done;
    });
    const address = `${this.address}/viewer.html?image=${encodeURIComponent(image)}${options}`;
    const flags = ["--headless", "--no-sandbox", "--disable-gpu", `--user-data-dir=${profile}`, "--remote-debugging-port=0"];
    const browser = spawn("chromium", [...flags, address], { stdio: "ignore", detached: true });
    const ended = new Promise((done) => browser.once("exit", done));
    const late = setTimeout(() => this.report("the page did not report within two minutes"), 120_000);
    try {
      return await reported;
    } finally {
      clearTimeout(late);
      process.kill(-browser.pid, "SIGKILL");
      await ended;
    }
  }
}

test("a browser lists an image by its address and says what is wrong", async (context) => {
  if (spawnSync("chromium", ["--version"]).error !== undefined) {
    assert.ok(!process.env.PACKFS_REQUIRE_ORACLES, "chromium is missing");
    context.skip("chromium is missing");
    return;
  }
  const work = mkdtempSync(join(tmpdir(), "packfs-viewer-"));
  try {
    mkdirSync(join(work, "root/usr/share"), { recursive: true });
    writeFileSync(join(work, "root/hello.txt"), "Hello.\n".repeat(10_000));
    writeFileSync(join(work, "root/<b>&amp;"), "a name that is no element");
    const viewer = readFileSync(page, "utf8").replace("</body>", () => `${REPORTER}</body>`);
    const files = new Map([["/viewer.html", viewer], ["/other", Buffer.alloc(5000)]]);
    for (const format of ["squashfs", "erofs"]) {
      execFileSync(packfs, ["build", "root", "-o", format, "--format", format, "-q"], { cwd: work });
      files.set(`/${format}`, readFileSync(join(work, format)));
    }
    execFileSync(packfs, ["build", "root", "-o", "xz", "--codec", "xz", "-q"], { cwd: work });
    files.set("/xz", readFileSync(join(work, "xz")));
    // What the small files share comes after the superblock.
    files.set("/damaged", Buffer.from(files.get("/xz")).fill(0x55, 96 + 30, 96 + 90));
    const site = new Site(files);
    await site.start();
    try {
      for (const [format, title] of [["squashfs", "SquashFS"], ["erofs", "EROFS"]]) {
        const text = await site.open(format, join(work, "profile"));
        assert.match(text, new RegExp(`: ${title}, `), format);
        assert.match(text, />hello\.txt<.*68\.4 KiB/s);
        assert.match(text, />usr\/</);
        assert.match(text, />&lt;b&gt;&amp;amp;</, "names are text");
      }
      for (const image of ["erofs", "xz"]) {
        const text = await site.open(image, join(work, "profile"), "&check");
        assert.match(text, />The image is sound\. Fetched/, image);
        assert.match(text, /id="findings"[^>]* hidden=""/, image);
      }
      const text = await site.open("damaged", join(work, "profile"), "&check");
      assert.match(text, />The image is damaged: 1 finding\. Fetched/);
      assert.match(text, /<li>Damage: fragment block at byte 96: xz: /);
      const wrong = [
        ["other", /neither a SquashFS nor an EROFS image/],
        ["none", /404/],
        ["javascript:alert(1)", /not an address of a server/],
      ];
      for (const [image, message] of wrong) {
        assert.match(await site.open(image, join(work, "profile")), message);
      }
    } finally {
      await site.stop();
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
});
