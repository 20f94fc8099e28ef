"use strict";
// From values to positions: linear and logarithmic scales, ticks, and formatting of numbers.

// Three digits, no powers of ten.
function three(number) {
  if (number === 0) return "0";
  const rounded = Number(number.toPrecision(3));
  const size = Math.abs(rounded);
  const decimals = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : Math.min(8, 2 - Math.floor(Math.log10(size)));
  return rounded.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

// Formats the number of a tick without redundant digits.
const plain = number => Number(number.toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 8 });

// Ranges above a decade use factors.
function isLog(values) {
  const least = Math.min(...values);
  return least > 0 && Math.max(...values) / least > 10;
}

function linearTicks(low, high, count) {
  const raw = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(step => step >= raw * 0.999);
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high * (1 + 1e-9); n++) ticks.push(n * step);
  return ticks;
}

function logTicks(low, high, count) {
  const decades = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  for (const digits of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    const ticks = [];
    for (let power = decades[0]; power <= decades[1]; power++) {
      ticks.push(...digits.map(digit => digit * 10 ** power).filter(tick => tick >= low * 0.999 && tick <= high * 1.001));
    }
    if (ticks.length <= count) return ticks.length > 1 ? ticks : linearTicks(low, high, count);
  }
  const every = Math.ceil((decades[1] - decades[0]) / Math.max(1, count));
  const ticks = [];
  for (let power = decades[0]; power <= decades[1]; power += every) ticks.push(10 ** power);
  return ticks.filter(tick => tick >= low * 0.999 && tick <= high * 1.001);
}

// A numeric scale. With `zero` it begins at 0, as for bars. Other linear ones begin at 0 if the smallest value is below
// this share of the largest.
function scale(values, log, zero = false, part = 1 / 2) {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (log) {
    const pad = Math.max(0.03 * Math.log10(high / low), 0.02);
    [low, high] = [low / 10 ** pad, high * 10 ** pad];
  } else {
    const begins = zero || (low >= 0 && low < high * part);
    const pad = 0.04 * (high - low) || Math.abs(high) * 0.1 || 1;
    [low, high] = [begins ? Math.min(0, low) : low - pad, high > 0 || !begins ? high + pad : 0];
  }
  const f = log ? Math.log10 : value => value;
  const share = value => (f(value) - f(low)) / (f(high) - f(low));
  // No ticks between whole numbers, such as threads.
  const whole = values.every(Number.isInteger);
  const ticks = count => (log ? logTicks : linearTicks)(low, high, count).filter(tick => !whole || Number.isInteger(tick));
  return { low, high, log, share, names: undefined, ticks };
}

// A scale over names, such as block sizes.
function nameScale(names) {
  const unit = { K: 2 ** 10, M: 2 ** 20, G: 2 ** 30 };
  const bytes = name => { const m = /^(\d+)([KMG]?)$/.exec(name); return m ? m[1] * (unit[m[2]] ?? 1) : NaN; };
  const all = [...new Set(names)];
  if (all.every(name => bytes(name) >= 0)) all.sort((a, b) => bytes(a) - bytes(b));
  const share = name => (all.indexOf(name) + 0.5) / all.length;
  return { log: false, share, names: all, ticks: count => all.filter((_, n) => n % Math.ceil(all.length / Math.max(1, count)) === 0) };
}

const tickText = (axis, tick) => axis.names ? tick : plain(tick);
