// Contents of files: from the server, or from the page itself.

// Bytes of a preview.
const PREVIEW = 64 << 10;
// Largest picture to show.
const PICTURE = 16 << 20;

class Served {
  constructor(entries) {
    this.entries = entries;
  }

  has() {
    return true;
  }

  url(n) {
    return `files/${address(this.entries.path(n))}`;
  }

  async read(n, most) {
    if (this.entries.size[this.entries.original(n)] === 0) return new Uint8Array();
    const answer = await fetch(this.url(n), { headers: { Range: `bytes=0-${most - 1}` } });
    if (!answer.ok) throw new Error(`the server answers ${answer.status}: ${(await answer.text()).slice(0, 200)}`);
    return new Uint8Array(await answer.arrayBuffer());
  }

  download(n) {
    return { href: `${this.url(n)}?download`, download: "" };
  }

  archive(n) {
    return { href: `tar/${address(this.entries.path(n))}`, download: "" };
  }

  async map(n) {
    const answer = await fetch(`api/map?path=${address(this.entries.path(n))}`);
    if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
    return (await answer.json()).extents;
  }
}

class Embedded {
  constructor(entries, files) {
    Object.assign(this, { entries, files });
  }

  has(n) {
    return this.entries.size[this.entries.original(n)] === 0 || this.entries.original(n) in this.files;
  }

  async read(n, most) {
    const text = atob(this.files[this.entries.original(n)] ?? "");
    return Uint8Array.from(text.slice(0, most), c => c.charCodeAt(0));
  }

  // As the server tells it; undefined if the file has too many pieces for a page.
  async map(n) {
    this.pieces ??= JSON.parse(place("pieces").textContent);
    const { ways, files } = this.pieces;
    let end = 0;
    return files[this.entries.original(n)]?.map(([length, position, stored, way, fragment]) => {
      const offset = end;
      end += length;
      if (way === undefined) return { offset, length, hole: true };
      const [codec, area, partial, inline] = ways[way];
      return { offset, length, hole: false, stored: { position, length: stored, codec, area, partial, inline },
        fragment: fragment === undefined ? null : { index: fragment < 0 ? null : fragment } };
    });
  }

  // Blobs are made when they are asked for.
  download(n) {
    return {
      href: "#", on: {
        click: async event => {
          event.preventDefault();
          const blob = new Blob([await this.read(n, Infinity)]);
          const link = make("a", { href: URL.createObjectURL(blob), download: this.entries.label(n) });
          link.click();
          setTimeout(() => URL.revokeObjectURL(link.href), 10000);
        },
      },
    };
  }
}

// Types of pictures by their first bytes.
const PICTURES = [["image/png", "\x89PNG\r\n"], ["image/jpeg", "\xff\xd8\xff"], ["image/gif", "GIF8"], ["image/bmp", "BM"],
  ["image/x-icon", "\0\0\x01\0"]];

function pictureType(data) {
  const head = String.fromCharCode(...data.subarray(0, 400));
  if (head.startsWith("RIFF") && head.slice(8, 12) === "WEBP") return "image/webp";
  if (/^\s*(<\?xml[^>]*>\s*)?(<!-{2}(?:(?!-->)[^])*-->\s*)*(<!DOCTYPE svg[^>]*>\s*)?<svg[\s>]/.test(head)) return "image/svg+xml";
  return PICTURES.find(([, start]) => head.startsWith(start))?.[0];
}

// The text of the first bytes of a file; undefined if they are no text.
function textOf(data) {
  if (data.includes(0)) return undefined;
  try {
    // A character may be cut at the end.
    return new TextDecoder("utf-8", { fatal: true }).decode(data, { stream: true });
  } catch {
    return undefined;
  }
}

// Sixteen bytes a line, as hexdump -C has them.
function hex(data) {
  const lines = [];
  for (let at = 0; at < data.length; at += 16) {
    const line = [...data.subarray(at, at + 16)];
    const digits = line.map(byte => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = line.map(byte => byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".").join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${letters}`);
  }
  return lines.join("\n");
}

// Characters in a text that would change how others are shown.
const visible = text => text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
  found => found === "\r" ? "" : `\\u{${found.codePointAt(0).toString(16)}}`);
