"use strict";
// Names, numbers and elements, as the whole page writes them.

// Makes an element. Texts are text, never markup: names in an image may be anything.
function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, heard] of Object.entries(value)) made.addEventListener(event, heard);
    else if (value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const place = id => document.getElementById(id);

// In names, %XX is a byte that is not UTF-8, and %25 is %.
const BYTE = /(%[0-9A-F]{2})/;
// Controls, and characters that turn the direction of writing, would change what else is read.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\\]|%[0-9A-F]{2}/g;
const USUAL = { "%25": "%", "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

// A name or a path as people read it.
const show = name => name.replace(HIDDEN, found => USUAL[found]
  ?? (found[0] === "%" ? `\\x${found.slice(1).toLowerCase()}` : `\\u{${found.codePointAt(0).toString(16)}}`));

// A path as a part of a URL.
const address = path => path.split("/").map(name =>
  name.split(BYTE).map((part, n) => n % 2 ? part : encodeURIComponent(part)).join("")).join("/");

const PREFIXES = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

// As the program prints them: three figures, powers of 1024.
function bytes(count) {
  if (count < 1024) return `${count} B`;
  let power = 0;
  count /= 1024;
  while (count >= 999.5 && power < PREFIXES.length - 1) [count, power] = [count / 1024, power + 1];
  return `${count.toFixed(count < 9.995 ? 2 : count < 99.95 ? 1 : 0)} ${PREFIXES[power]}`;
}

const number = count => count.toLocaleString("en-US");
const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

// A part of a whole; nothing has no parts.
const percent = (part, whole) => {
  const tenths = Math.floor(part * 1000 / whole);
  return whole > 0 ? part > 0 && tenths === 0 ? "< 0.1 %" : `${(tenths / 10).toFixed(1)} %` : "–";
};
const date = seconds => {
  const time = new Date(seconds * 1000);
  return Number.isNaN(time.getTime()) ? String(seconds) : `${time.toISOString().slice(0, 19).replace("T", " ")} UTC`;
};
