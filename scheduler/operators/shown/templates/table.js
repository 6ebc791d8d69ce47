
"use strict";
for (const table of document.querySelectorAll("table.searched")) {
  const body = table.tBodies[0], rows = Array.from(body.rows), search = table.previousElementSibling;
  search.hidden = false;
  search.querySelector("input").addEventListener("input", event => {
    const words = event.target.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(words);
  });
  table.querySelectorAll("th").forEach((head, column) => {
    const button = document.createElement("button"), text = row => row.cells[column].textContent;
    let direction = -1;
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      direction = -direction;
      rows.sort((a, b) => direction * text(a).localeCompare(text(b), undefined, {numeric: true}));
      body.append(...rows);
      table.querySelectorAll("th").forEach(each => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    });
  });
}
