(() => {
  "use strict";

  // Controls do nothing without a script, so they appear with it.
  for (const control of document.querySelectorAll("button[hidden], #keys")) control.hidden = false;

  /* Light and dark */

  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const preference = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (preference.matches ? "dark" : "light")) === "dark";
  const showTheme = () => theme.setAttribute("aria-pressed", String(isDark()));
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
  });
  preference.addEventListener("change", showTheme);
  showTheme();

  /* Where the reader is */

  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        for (const link of links.values()) link.removeAttribute("aria-current");
        links.get(entry.target.id)?.setAttribute("aria-current", "true");
      }
    },
    { rootMargin: "-15% 0px -75% 0px" },
  );
  for (const name of links.keys()) seen.observe(document.getElementById(name));

  /* Figures: the nearest mark answers to the pointer, arrow keys move between marks */

  for (const figure of document.querySelectorAll("figure")) {
    const plot = figure.querySelector(".plot");
    const tip = figure.querySelector(".tip");
    const readout = figure.querySelector("[role=status]");
    const drawings = [...plot.querySelectorAll("svg")];
    const data = JSON.parse(figure.querySelector("script").textContent);
    let current = null;

    const shown = () => drawings.findIndex((drawing) => drawing.getBoundingClientRect().width > 0);

    const hide = () => {
      tip.hidden = true;
      for (const drawing of drawings) drawing.querySelector(".cursor").classList.remove("on");
    };

    const show = (series, place, speak) => {
      const which = shown();
      if (which < 0 || !data.at[which][series]?.[place]) return;
      const drawing = drawings[which];
      const [x, y] = data.at[which][series][place];
      current = [series, place];
      const cursor = drawing.querySelector(".cursor");
      cursor.setAttribute("cx", x);
      cursor.setAttribute("cy", y);
      cursor.classList.add("on");
      const name = document.createElement("b");
      name.textContent = data.names[series];
      tip.replaceChildren(name, data.labels[series][place]);
      tip.hidden = false;
      const scale = drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width;
      const left = Math.min(Math.max(x * scale - tip.offsetWidth / 2, 0), plot.clientWidth - tip.offsetWidth);
      const above = y * scale - tip.offsetHeight - 14;
      tip.style.transform = `translate(${left}px, ${above > -40 ? above : y * scale + 14}px)`;
      if (speak) readout.textContent = `${data.names[series]}, ${data.labels[series][place]}`;
    };

    const nearest = (event) => {
      const which = shown();
      const box = drawings[which].getBoundingClientRect();
      const scale = box.width / drawings[which].viewBox.baseVal.width;
      const x = (event.clientX - box.left) / scale;
      const y = (event.clientY - box.top) / scale;
      let best = null;
      let least = data.reach[which] ** 2;
      data.at[which].forEach((points, series) =>
        points.forEach(([a, b], place) => {
          const distance = (a - x) ** 2 + (b - y) ** 2;
          if (distance < least) [best, least] = [[series, place], distance];
        }),
      );
      return best;
    };

    const point = (event) => {
      const found = nearest(event);
      if (found) show(...found, false);
      else hide();
    };

    const filled = data.labels.map((labels, series) => series).filter((series) => data.labels[series].length);

    const step = (key) => {
      const [series, place] = current;
      const rank = filled.indexOf(series);
      const last = data.labels[series].length - 1;
      const along = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, End: last, Home: -last }[key];
      if (along !== undefined) return [series, Math.min(Math.max(place + along, 0), last)];
      const across = { ArrowDown: 1, ArrowUp: -1 }[key];
      const next = filled[Math.min(Math.max(rank + across, 0), filled.length - 1)];
      return [next, Math.min(place, data.labels[next].length - 1)];
    };

    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("blur", hide);
    plot.addEventListener("focus", () => {
      if (plot.matches(":focus-visible") && filled.length) show(...(current || [filled[0], 0]), true);
    });
    plot.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hide();
      if (!/^(Arrow(Right|Left|Up|Down)|Page(Up|Down)|Home|End)$/.test(event.key) || !filled.length) return;
      event.preventDefault();
      if (current) current = step(event.key);
      show(...(current || [filled[0], 0]), true);
    });
  }

  /* Tables: sort by a column, download as CSV */

  const text = (cell) => cell.textContent.trim();
  const missing = (cell) => text(cell) === "–" || text(cell) === "";

  const compare = (a, b, numeric) => {
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    if (numeric) return Number(a.dataset.v ?? text(a)) - Number(b.dataset.v ?? text(b));
    return text(a).localeCompare(text(b), "en", { numeric: true });
  };

  const sort = (table, column) => {
    const headings = [...table.tHead.rows[0].cells];
    const heading = headings[column];
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of headings) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const numeric = heading.classList.contains("n");
    const body = table.tBodies[0];
    const rows = [...body.rows].sort((a, b) => {
      const order = compare(a.cells[column], b.cells[column], numeric);
      const apart = missing(a.cells[column]) !== missing(b.cells[column]);
      return down && !apart ? -order : order;
    });
    body.append(...rows);
  };

  // A spreadsheet must not run a name as a formula.
  const guarded = (value) => (/^[=+@\t\r]|^-(?![\d.])/.test(value) ? `'${value}` : value);
  const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const content = (cell) => (text(cell).startsWith("[") ? text(cell) : (cell.dataset.v ?? text(cell)));
  const field = (cell) => quoted(guarded(missing(cell) ? "" : content(cell)));
  const csv = (table) => [...table.rows].map((row) => [...row.cells].map(field).join(",")).join("\r\n") + "\r\n";

  for (const holder of document.querySelectorAll(".table")) {
    const table = holder.querySelector("table");
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text(heading);
      button.addEventListener("click", () => sort(table, column));
      heading.replaceChildren(button);
    });
    holder.querySelector(".download").addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csv(table)], { type: "text/csv" }));
      link.download = `${holder.dataset.name}.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }
})();
