(() => {
  "use strict";

  // Controls do nothing without a script, so they appear with it.
  for (const control of document.querySelectorAll("button[hidden], #keys, .controls")) control.hidden = false;

  /* Light and dark: the button says what it does */

  const root = document.documentElement;
  const theme = document.getElementById("theme");
  const preference = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (preference.matches ? "dark" : "light")) === "dark";
  const showTheme = () => (theme.textContent = isDark() ? "Light theme" : "Dark theme");
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
  });
  preference.addEventListener("change", showTheme);
  showTheme();

  /* Where the reader is, and how to get elsewhere */

  const links = new Map([...document.querySelectorAll(".side a")].map((link) => [link.hash.slice(1), link]));
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

  const jump = document.querySelector(".jump");
  jump.addEventListener("click", (event) => {
    if (event.target.closest("a")) jump.open = false;
  });
  jump.addEventListener("keydown", (event) => {
    if (event.key === "Escape") jump.open = false;
  });

  /* Files */

  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  /* Figures as files: drawn as they are seen, in the light theme, with title and legend */

  const SVG = document.querySelector("svg")?.namespaceURI;
  const INLINE = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "stroke-linecap"];
  INLINE.push("stroke-linejoin", "opacity", "font-size", "font-weight", "text-anchor", "image-rendering");
  const element = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  const inlined = (original) => {
    const copy = original.cloneNode(true);
    const from = [original, ...original.querySelectorAll("*")];
    [copy, ...copy.querySelectorAll("*")].forEach((each, place) => {
      const style = getComputedStyle(from[place]);
      if (style.display === "none" || from[place].matches(".hit:not(.on)")) each.dataset.drop = "";
      else for (const property of INLINE) each.style.setProperty(property, style.getPropertyValue(property));
      each.removeAttribute("class");
    });
    for (const each of copy.querySelectorAll("[data-drop]")) each.remove();
    return copy;
  };

  const standalone = (figure) => {
    const before = root.dataset.theme;
    root.dataset.theme = "light";
    const drawing = [...figure.querySelectorAll(".plot svg")].find((each) => each.getBoundingClientRect().width > 0);
    const { width, height } = drawing.viewBox.baseVal;
    const title = figure.querySelector("figcaption .heading").textContent;
    const body = element("g", { transform: "translate(12 34)" });
    body.append(...inlined(drawing).childNodes);
    const legend = element("g", {});
    let [x, y] = [12, height + 52];
    for (const item of figure.querySelectorAll(".legend li")) {
      const taken = 40 + 6.4 * item.textContent.length;
      if (x > 12 && x + taken > width + 24) [x, y] = [12, y + 20];
      const mark = element("g", { transform: `translate(${x} ${y - 10})` });
      mark.append(...inlined(item.querySelector("svg")).childNodes);
      legend.append(mark, element("text", { x: x + 28, y, "font-size": 11, fill: "#454c58" }, item.textContent.trim()));
      x += taken;
    }
    const [across, down] = [width + 24, (legend.childNodes.length ? y : height + 34) + 14];
    const whole = element("svg", { xmlns: SVG, width: across, height: down, viewBox: `0 0 ${across} ${down}` });
    whole.setAttribute("font-family", getComputedStyle(document.body).fontFamily);
    whole.append(element("title", {}, title), element("rect", { width: across, height: down, fill: "#fff" }));
    whole.append(element("text", { x: 12, y: 22, "font-size": 13, "font-weight": 700, fill: "#000" }, title), body, legend);
    if (before === undefined) delete root.dataset.theme;
    else root.dataset.theme = before;
    return { text: new XMLSerializer().serializeToString(whole), across, down };
  };

  const asPicture = ({ text, across, down }, name) => {
    const picture = new Image();
    picture.addEventListener("load", () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [3 * across, 3 * down];
      canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(blob, name), "image/png");
    });
    picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  };

  for (const button of document.querySelectorAll(".export button")) {
    button.addEventListener("click", () => {
      const figure = button.closest("figure");
      const drawn = standalone(figure);
      const name = `${figure.id.replace(/-figure$/, "")}.${button.dataset.as}`;
      if (button.dataset.as === "svg") save(new Blob([drawn.text], { type: "image/svg+xml" }), name);
      else asPicture(drawn, name);
    });
  }

  /* Figures: the nearest mark answers to the pointer, arrow keys move between marks */

  const shownOf = (drawings) => drawings.findIndex((drawing) => drawing.getBoundingClientRect().width > 0);
  const inside = (drawing, event) => {
    const box = drawing.getBoundingClientRect();
    const scale = box.width / drawing.viewBox.baseVal.width;
    return [(event.clientX - box.left) / scale, (event.clientY - box.top) / scale];
  };

  const interactive = (figure) => {
    const plot = figure.querySelector(".plot");
    const tip = figure.querySelector(".tip");
    const readout = figure.querySelector("[role=status]");
    const drawings = [...plot.querySelectorAll("svg")];
    const data = JSON.parse(figure.querySelector("script").textContent);
    const told = { figure, plot, drawings, data, current: null, add: () => [] };

    const hide = () => {
      tip.hidden = true;
      for (const drawing of drawings) drawing.querySelector(".cursor").classList.remove("on");
    };

    const show = (series, place, speak) => {
      const which = shownOf(drawings);
      if (which < 0 || !data.at[which][series]?.[place]) return;
      const drawing = drawings[which];
      const [x, y] = data.at[which][series][place];
      told.current = [series, place];
      const cursor = drawing.querySelector(".cursor");
      cursor.setAttribute("cx", x);
      cursor.setAttribute("cy", y);
      cursor.classList.add("on");
      const name = document.createElement("b");
      name.textContent = data.names[series];
      tip.replaceChildren(name, data.labels[series][place], ...told.add(series, place));
      tip.hidden = false;
      const scale = drawing.getBoundingClientRect().width / drawing.viewBox.baseVal.width;
      const left = Math.min(Math.max(x * scale - tip.offsetWidth / 2, 0), plot.clientWidth - tip.offsetWidth);
      const above = y * scale - tip.offsetHeight - 14;
      tip.style.transform = `translate(${left}px, ${above > -40 ? above : y * scale + 14}px)`;
      if (speak) readout.textContent = `${data.names[series]}, ${data.labels[series][place]}`;
    };

    const nearest = (event) => {
      const which = shownOf(drawings);
      if (which < 0) return null;
      const [x, y] = inside(drawings[which], event);
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

    const filled = () => data.labels.map((labels, series) => series).filter((series) => data.labels[series].length);

    const step = (key) => {
      const [series, place] = told.current;
      const rank = filled().indexOf(series);
      const last = data.labels[series].length - 1;
      const along = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, End: last, Home: -last }[key];
      if (along !== undefined) return [series, Math.min(Math.max(place + along, 0), last)];
      const across = { ArrowDown: 1, ArrowUp: -1 }[key];
      const next = filled()[Math.min(Math.max(rank + across, 0), filled().length - 1)];
      return [next, Math.min(place, data.labels[next].length - 1)];
    };

    plot.addEventListener("pointermove", point);
    plot.addEventListener("pointerdown", point);
    plot.addEventListener("pointerleave", hide);
    plot.addEventListener("blur", hide);
    plot.addEventListener("focus", () => {
      if (plot.matches(":focus-visible") && filled().length) show(...(told.current || [filled()[0], 0]), true);
    });
    plot.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hide();
      if (!/^(Arrow(Right|Left|Up|Down)|Page(Up|Down)|Home|End)$/.test(event.key) || !filled().length) return;
      event.preventDefault();
      if (told.current) told.current = step(event.key);
      show(...(told.current || [filled()[0], 0]), true);
    });
    return told;
  };

  /* The ladder: a rung that is chosen is shown by the figures below, and so are rows that are selected */

  const outline = (data, which, errors) => {
    const [left, right, foot, top] = data.bins[which];
    const { edges, most } = data;
    const span = edges.at(-1) - edges[0];
    const counts = new Array(edges.length - 1).fill(0);
    for (const error of errors) {
      const bin = Math.floor(((error - edges[0]) / span) * counts.length);
      if (bin <= counts.length) counts[Math.min(Math.max(bin, 0), counts.length - 1)] += 1; // the rest is beyond the axis
    }
    const x = (edge) => left + ((edge - edges[0]) / span) * (right - left);
    const y = (value) => foot + Math.min(value / most, 1) * (top - foot);
    const corners = counts.map((value, bin) => {
      const height = y((100 * value) / Math.max(errors.length, 1)).toFixed(1);
      return `L${x(edges[bin]).toFixed(1)} ${height}L${x(edges[bin + 1]).toFixed(1)} ${height}`;
    });
    return `M${left} ${foot}${corners.join("")}L${right} ${foot}z`;
  };

  const moving = (told, state) => {
    const { figure, plot, drawings, data } = told;
    const [drawing] = drawings;
    const slider = figure.querySelector("input[type=range]");
    const output = figure.querySelector("output");
    const clear = figure.querySelector(".clear");
    const [xLow, xHigh, left, right, yLow, yHigh, foot, top] = data.frame;
    const place = ([x, y]) => [
      left + ((x - xLow) / (xHigh - xLow)) * (right - left),
      foot + ((y - yLow) / (yHigh - yLow)) * (top - foot),
    ];
    const target = data.target.map(place);
    const before = data.before.map(place);
    const path = (points, rows) => rows.map((row) => `M${points[row][0].toFixed(1)} ${points[row][1].toFixed(1)}h0`).join("");
    const picked = element("path", { class: "picked" });
    const brush = element("rect", { class: "brush", visibility: "hidden" });
    drawing.insertBefore(picked, drawing.querySelector(".cursor"));
    drawing.append(brush);

    const draw = () => {
      const move = data.moves[state.key];
      const share = Number(slider.value) / 100;
      const after = move.points.map(place);
      const now = before.map(([x, y], row) => [x + share * (after[row][0] - x), y + share * (after[row][1] - y)]);
      [target, now].forEach((points, side) => {
        drawing.querySelectorAll(`.cloud-${side} .dots`).forEach((dots, group) => {
          dots.setAttribute("d", path(points, data.groups[side][group]));
        });
      });
      const joined = now.map(([x, y], row) => `M${target[row][0].toFixed(1)} ${target[row][1].toFixed(1)}L${x.toFixed(1)} ${y.toFixed(1)}`);
      drawing.querySelector(".links").setAttribute("d", joined.join(""));
      const ring = ([x, y]) => `M${(x - 4).toFixed(1)} ${y.toFixed(1)}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0`;
      picked.setAttribute("d", [...state.rows].map((row) => ring(now[row])).join(""));
      data.at[0] = [target, now];
      const named = (row) => (data.classes.length ? `, ${data.classNames[data.classes[row]]}` : "");
      const labels = data.rows.map(
        (name, row) => `row ${name}: held-out error ${move.errors[row].toFixed(3)} (${move.name})${named(row)}`,
      );
      data.labels = [labels, labels];
      const share100 = Math.round(100 * share);
      slider.setAttribute("aria-valuetext", share100 === 100 ? `after, ${move.name}` : `${share100} % of the way, ${move.name}`);
      const selected = state.rows.size ? `${state.rows.size} of ${data.rows.length} rows selected` : `${data.rows.length} rows`;
      output.textContent = `${move.name}; ${selected}`;
      clear.disabled = !state.rows.size;
    };

    told.add = (series, row) => {
      const example = data.examples[row];
      if (!example) return [];
      if (/^data:image\/(png|jpeg);base64,/.test(example)) {
        const picture = document.createElement("img");
        picture.src = example;
        picture.alt = "";
        return [picture];
      }
      const text = document.createElement("q");
      text.textContent = example;
      return [text];
    };

    const near = (row, most) => {
      const points = data.at[0][1];
      const distance = ([x, y]) => (x - points[row][0]) ** 2 + (y - points[row][1]) ** 2;
      return [...points.keys()].sort((a, b) => distance(points[a]) - distance(points[b])).slice(0, most);
    };

    let from = null;
    const corners = (event) => {
      const [x, y] = inside(drawing, event);
      return [Math.min(from[0], x), Math.min(from[1], y), Math.max(from[0], x), Math.max(from[1], y)];
    };
    plot.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "touch" || event.button) return;
      from = inside(drawing, event);
      plot.setPointerCapture(event.pointerId);
    });
    plot.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [x0, y0, x1, y1] = corners(event);
      for (const [key, value] of Object.entries({ x: x0, y: y0, width: x1 - x0, height: y1 - y0 })) brush.setAttribute(key, value);
      brush.setAttribute("visibility", "visible");
    });
    plot.addEventListener("pointerup", (event) => {
      if (!from) return;
      const [x0, y0, x1, y1] = corners(event);
      from = null;
      brush.setAttribute("visibility", "hidden");
      if (x1 - x0 < 4 && y1 - y0 < 4) return;
      const within = ([x, y]) => x >= x0 && x <= x1 && y >= y0 && y <= y1;
      state.select([...data.at[0][1].keys()].filter((row) => within(data.at[0][1][row])));
    });
    plot.addEventListener("keydown", (event) => {
      if (event.key === "Escape") state.select([]);
      if (event.key !== "Enter" || !told.current) return;
      event.preventDefault();
      state.select(near(told.current[1], 25));
    });
    slider.addEventListener("input", draw);
    clear.addEventListener("click", () => state.select([]));
    return draw;
  };

  const worst = (table, data, state) => {
    const { errors } = data.moves[state.key];
    const rows = state.rows.size ? [...state.rows] : [...errors.keys()];
    const most = Number(table.dataset.most || 10);
    const body = table.tBodies[0];
    body.replaceChildren(
      ...rows
        .sort((a, b) => errors[b] - errors[a])
        .slice(0, most)
        .map((row) => {
          const made = document.createElement("tr");
          const name = document.createElement("th");
          name.scope = "row";
          name.textContent = data.rows[row];
          const error = document.createElement("td");
          error.textContent = errors[row].toFixed(3);
          error.dataset.v = errors[row];
          made.append(name, error);
          const more = data.classes.length ? [data.classNames[data.classes[row]]] : [];
          if (data.examples.length && !/^data:/.test(data.examples[row])) more.push(data.examples[row]);
          for (const text of more) {
            const cell = document.createElement("td");
            cell.className = "t";
            cell.textContent = text;
            made.append(cell);
          }
          return made;
        }),
    );
  };

  const linked = (scope, every) => {
    const of = (role) => every.find(({ figure }) => figure.dataset.role === role && scope.contains(figure));
    const ladder = of("ladder");
    if (!ladder) return;
    const [scatter, residuals] = [of("alignment"), of("residuals")];
    const table = scope.querySelector("[data-name$=worst-drawn] table");
    const keyed = [...scope.querySelectorAll(".linked [data-k]")];
    const state = { key: ladder.figure.querySelector(".hit.on").dataset.k, rows: new Set() };
    const names = new Map(ladder.data.keys.map((key, place) => [key, ladder.data.names[place]]));
    const buttons = document.createElement("div");
    buttons.className = "rungs";
    buttons.setAttribute("role", "group");
    buttons.setAttribute("aria-label", "Rung that the figures below show");
    buttons.append("The figures below show:");

    const refresh = () => {
      for (const each of keyed) each.classList.toggle("on", each.dataset.k === state.key);
      for (const each of scope.querySelectorAll(".linked")) {
        each.classList.toggle("idle", !each.querySelector(`[data-k="${state.key}"]`));
      }
      for (const each of buttons.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each.dataset.k === state.key));
      if (scatter) draw();
      if (scatter && residuals) {
        const errors = [...state.rows].map((row) => scatter.data.moves[state.key].errors[row]);
        overlays.forEach((overlay, which) => {
          overlay.setAttribute("d", errors.length ? outline(residuals.data, which, errors) : "");
        });
      }
      if (scatter && table) worst(table, scatter.data, state);
    };

    state.select = (rows) => {
      state.rows = new Set(rows);
      refresh();
    };
    const choose = (key) => {
      state.key = key;
      refresh();
    };

    const draw = scatter && moving(scatter, state);
    const overlays = (residuals?.drawings || []).map((drawing) => {
      const overlay = element("path", { class: "brushed" });
      drawing.insertBefore(overlay, drawing.querySelector(".cursor"));
      return overlay;
    });
    for (const [key, name] of names) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet";
      button.dataset.k = key;
      button.textContent = name;
      button.addEventListener("click", () => choose(key));
      buttons.append(button);
    }
    ladder.figure.append(buttons);
    for (const each of keyed) {
      if (each.matches(".hit, .legend li")) each.addEventListener("click", () => choose(each.dataset.k));
    }
    ladder.plot.addEventListener("keydown", (event) => {
      if (!/^(Enter| )$/.test(event.key) || !ladder.current) return;
      event.preventDefault();
      choose(ladder.data.keys[ladder.current[0]]);
    });
    refresh();
  };

  const every = [...document.querySelectorAll("figure")].map(interactive);
  const articles = [...document.querySelectorAll("article")];
  for (const scope of articles.length ? articles : [document.body]) linked(scope, every);

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
      save(new Blob([csv(table)], { type: "text/csv" }), `${holder.dataset.name}.csv`);
    });
  }
})();
