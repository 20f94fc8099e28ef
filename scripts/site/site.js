// What mdBook's pages lack for readers without a mouse or with a screen reader.
"use strict";
const toggle = document.getElementById("mdbook-sidebar-toggle");
if (toggle) {
    // A label with a target cannot be a button for a screen reader, though it acts as one.
    toggle.removeAttribute("for");
    toggle.setAttribute("role", "button");
    toggle.addEventListener("click", () => document.getElementById("mdbook-sidebar-toggle-anchor").click());
}
document.querySelector(".menu-bar, #mdbook-menu-bar")?.setAttribute("role", "banner");
// Blocks that scroll sideways can be reached and scrolled with the keyboard.
for (const block of document.querySelectorAll("pre > code, .table-wrapper, pre")) {
    if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
}
