// What mdBook's pages lack for readers without a mouse or with a screen reader.
"use strict";
const label = document.getElementById("mdbook-sidebar-toggle");
const state = document.getElementById("mdbook-sidebar-toggle-anchor");
if (label && state) {
    // A label cannot be a button for a screen reader, though it looks and acts like one.
    const button = document.createElement("button");
    button.append(...label.childNodes);
    for (const name of label.getAttributeNames()) if (name !== "for") button.setAttribute(name, label.getAttribute(name));
    button.type = "button";
    button.addEventListener("click", () => {
        state.click();
        button.setAttribute("aria-expanded", state.checked);
    });
    label.replaceWith(button);
}
document.getElementById("mdbook-menu-bar")?.setAttribute("role", "banner");
// The corner of a table without a heading is no heading.
for (const corner of document.querySelectorAll("th:empty")) corner.replaceWith(document.createElement("td"));
// Blocks that scroll sideways can be reached and scrolled with the keyboard.
for (const block of document.querySelectorAll("pre > code, .table-wrapper, pre")) {
    if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
}
