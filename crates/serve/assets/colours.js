// What colours mean: types, ratios, duplicates or changes. A colour is a hue and a saturation; the style sheet knows how
// light it is, so that words on it can be read in light and dark.

const GREY = [210, 8];
const HUES = [[215, 70], [145, 45], [30, 80], [280, 45], [350, 60], [185, 60], [60, 55], [320, 45]];
// From what compresses well to what does not compress.
const RATIO_HUES = [[20, 90], [35, 70], [55, 40], [195, 40], [215, 75]];
const SHARE_HUES = [["no duplicates", GREY], ["less than half", [280, 25]], ["half or more", [285, 55]]];
const CHANGE_HUES = [GREY, [145, 55], [40, 85], [0, 70]];

// Each way to colour: its name, the legend, and the class of a file as a place in the legend.
const COLOURS = {
  type: {
    title: "type",
    // The types with most bytes in the whole image have colours, which stay theirs in every folder.
    of(entries, folder) {
      entries.hues ??= new Map(entries.types(0).slice(0, HUES.length).map((group, n) => [group.name, HUES[n]]));
      const types = entries.types(folder);
      const named = types.filter(group => entries.hues.has(group.name));
      const place = new Map(named.map((group, n) => [group.name, n]));
      const legend = named.map(group => [typeName(entries, group.name), entries.hues.get(group.name)]);
      if (types.length > named.length) legend.push(["others", GREY]);
      return { legend, class: n => place.get(entries.type[n]) ?? named.length };
    },
  },
  ratio: {
    title: "ratio",
    of(entries) {
      const legend = entries.facts.ratios.map(([, name], n) => [name, RATIO_HUES[n] ?? GREY]);
      return { legend: [...legend, ["no data", GREY]], class: n => entries.ratio(n) };
    },
  },
  duplicates: {
    title: "duplicates",
    of(entries) {
      const { duplicate, data } = entries;
      return { legend: SHARE_HUES, class: n => duplicate[n] === 0 ? 0 : duplicate[n] * 2 < data[n] ? 1 : 2 };
    },
  },
  changes: {
    title: "changes",
    // What is removed takes no space, so it is in the tree and in the table.
    of(entries) {
      return { legend: CHANGES.slice(0, REMOVED).map((name, n) => [name, CHANGE_HUES[n]]), class: n => entries.change[n] };
    },
  },
};

const typeName = (entries, type) => show(entries.facts.types[type]) || "no extension";

// Gives an element its colour. Style attributes would need a permission of the page.
function paint(element, [hue, saturation]) {
  element.classList.add("painted");
  element.style.setProperty("--hue", hue);
  element.style.setProperty("--sat", `${saturation}%`);
  return element;
}

function legendItem([name, colour], ...more) {
  return make("li", {}, paint(make("span", { class: "key" }), colour), make("span", { class: "term" }, name), ...more);
}

// Buttons of which one is pressed.
function choice(title, options, pressed, chosen) {
  const buttons = options.map(([value, text]) => make("button", {
    type: "button", "aria-pressed": String(value === pressed), on: {
      click: event => {
        for (const one of buttons) one.setAttribute("aria-pressed", String(one === event.currentTarget));
        chosen(value);
      },
    },
  }, text));
  return make("div", { class: "toggles", role: "group", "aria-label": title }, make("span", {}, title), ...buttons);
}
