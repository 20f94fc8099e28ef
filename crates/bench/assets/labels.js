"use strict";
// Placing of names: beside points if there is room, and at the ends of lines, pushed apart.

const overlap = (a, b) => a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
const inside = (a, b) => a.x >= b.x && a.y >= b.y && a.x + a.w <= b.x + b.w && a.y + a.h <= b.y + b.h;

// Candidate boxes for a text beside a point, best first.
function* around(x, y, w, h) {
  for (const gap of [6, 12, 22, 34]) {
    yield { x: x + gap, y: y - h / 2, w, h };
    yield { x: x - w / 2, y: y - gap - h, w, h };
    yield { x: x - gap - w, y: y - h / 2, w, h };
    yield { x: x - w / 2, y: y + gap, w, h };
    yield { x: x + gap * 0.7, y: y - gap * 0.7 - h, w, h };
    yield { x: x - gap * 0.7 - w, y: y - gap * 0.7 - h, w, h };
    yield { x: x + gap * 0.7, y: y + gap * 0.7, w, h };
    yield { x: x - gap * 0.7 - w, y: y + gap * 0.7, w, h };
  }
}

// Puts a text into the first free box within the frame and away from some lines, and occupies it. Returns `null` if
// there is none.
function settle(text, places, frame, taken, off) {
  const [w, h] = [textWidth(text) + 4, LINE];
  for (const [x, y] of places) {
    for (const box of around(x, y, w, h)) {
      if (inside(box, frame) && !taken.some(other => overlap(box, other)) && !off.some(other => overlap(box, other))) {
        taken.push(box);
        return { box, x, y };
      }
    }
  }
  return null;
}

// The text of a placed box, with a leader line if it is not adjacent.
function settled({ box, x, y }, text, attributes) {
  const group = svg("g", attributes);
  const [cx, cy] = [Math.max(box.x, Math.min(x, box.x + box.w)), Math.max(box.y, Math.min(y, box.y + box.h))];
  if (Math.hypot(cx - x, cy - y) > 10) group.append(svg("path", { class: "leader", d: `M${x},${y}L${cx},${cy}` }));
  group.append(words([text], box.x + 2, box.y + LINE - 3, { class: "label" }));
  return group;
}

// Pushes items apart between two borders, each as close to its preferred place as possible.
function spread(items, top, bottom) {
  const sorted = [...items].sort((a, b) => a.wish - b.wish);
  let edge = top;
  for (const item of sorted) {
    item.y = Math.max(edge, item.wish - item.height / 2);
    edge = item.y + item.height;
  }
  let limit = bottom;
  for (const item of sorted.reverse()) {
    item.y = Math.min(item.y, limit - item.height);
    limit = item.y;
  }
}
