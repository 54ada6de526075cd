// Draws the page's figures from the data that it carries. No connection is made, and none would be allowed.
(() => {
  "use strict";
  const page = JSON.parse(document.getElementById("page-data").textContent);
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 640px)");
  const font = getComputedStyle(root).getPropertyValue("--sans").trim();
  // Okabe and Ito's hues, darkened or lightened until each has a contrast of at least 3:1 with its background.
  const looks = {
    light: {
      ink: "#1c2127", muted: "#56606b", line: "#c9ced4", grid: "#e6e9ec", background: "#ffffff",
      palette: ["#0072b2", "#d55e00", "#007f5f", "#b0407f", "#8a6500", "#3c4650", "#2f8fd0"],
    },
    dark: {
      ink: "#e6e9ec", muted: "#a4adb7", line: "#49525c", grid: "#2b3239", background: "#14181c",
      palette: ["#56b4e9", "#ff8a3d", "#2ec49a", "#ec93c8", "#e6b422", "#c5cdd6", "#8fa8ff"],
    },
  };

  const rowsOf = (columns) => {
    const names = Object.keys(columns);
    const length = names.length ? columns[names[0]].length : 0;
    return Array.from({ length }, (_, place) => Object.fromEntries(names.map((name) => [name, columns[name][place]])));
  };

  const config = (look) => ({
    background: look.background,
    font,
    mark: { aria: false }, // the place has a name, is walked with keys, and speaks
    view: { stroke: null },
    range: { category: look.palette },
    text: { color: look.ink },
    rule: { color: look.ink },
    style: {
      "phase-name": { fill: look.muted },
      box: { color: look.palette[0], stroke: look.palette[0] },
      "box-end": { color: look.ink },
      "box-name": { color: look.ink },
      dot: { color: look.palette[0] },
      touched: { color: look.ink },
      window: { color: look.muted, stroke: look.muted },
      "window-name": { color: look.ink },
      change: { color: look.palette[3] },
      stall: { color: look.palette[3] },
      "sent-bin": { color: look.palette[1] },
      halo: { stroke: look.background, strokeWidth: 3, fill: look.background },
    },
    axis: {
      labelColor: look.muted, titleColor: look.muted, domainColor: look.line, tickColor: look.line,
      gridColor: look.grid, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelFlush: false,
    },
    legend: {
      orient: "top", direction: "horizontal", columns: narrow.matches ? 2 : innerWidth < 1000 ? 3 : 4, labelColor: look.ink,
      titleColor: look.muted, titleFontSize: 12, titleFontWeight: "normal",
      labelFontSize: 12, labelLimit: narrow.matches ? 120 : 220, symbolSize: 90, columnPadding: 18,
      symbolLimit: 0,
    },
  });

  // Vega-Lite looks for names, such as the curve's, in the Voronoi cell; the point in it has them.
  const answerByPoint = (specification) => {
    const cells = specification.marks.find((mark) => mark.name === "touch_voronoi");
    if (cells) cells.encode.update.tooltip = { signal: "datum.tooltip" };
    return specification;
  };

  const drawn = new Map();
  const unseen = new Set(); // places that had no width when they were drawn
  const embed = async (place, theme, earlier) => {
    if (earlier) earlier.finalize();
    const figure = page.figures[place.id];
    const datasets = {};
    for (const [name, source] of Object.entries(figure.data)) datasets[name] = rowsOf(page.datasets[source]);
    const chart = page.charts[figure.chart];
    const params = chart.params.map((each) => (each.name in figure.params ? { ...each, value: figure.params[each.name] } : each));
    // An axis over no rows has no extent, and Vega warns of it.
    const layer = chart.layer.filter((each) => each.name || datasets[each.data.name].length);
    const specification = { ...chart, layer, datasets, params, height: figure.height ?? chart.height };
    // What is not shown has no width of its own. It is drawn as wide as a section, so that paper has it, too.
    unseen.delete(place);
    if (!place.clientWidth) {
      specification.width = document.querySelector("main > section").clientWidth;
      specification.autosize = { type: "fit-x", contains: "padding" }; // as Vega-Lite has it for a width of its own
      unseen.add(place);
    }
    const result = await vegaEmbed(place, specification, {
      actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
      config: config(looks[theme]),
      patch: answerByPoint,
      downloadFileName: `${document.body.dataset.run}-${place.id}`,
      renderer: "svg",
      scaleFactor: { png: 2 },
      tooltip: { theme },
      i18n: { CLICK_TO_VIEW_ACTIONS: "Save this figure" },
    });
    place.querySelector("summary").setAttribute("aria-label", "Save this figure");
    return result;
  };

  // Of one place, one drawing after another: two at once would leave two menus. A figure that fails says why, and
  // the others are drawn.
  let drawing = 0;
  let turn = 0;
  const draw = async (places) => {
    const [mine, theme] = [turn, look.theme];
    drawing += 1;
    release();
    root.dataset.charts = "drawing";
    for (const place of places) {
      if (mine !== turn) break;
      const next = Promise.resolve(drawn.get(place)).then((earlier) => embed(place, theme, earlier));
      drawn.set(place, next.catch(() => undefined));
      place.classList.remove("failed");
      try {
        await next;
      } catch (error) {
        place.classList.add("failed");
        place.textContent = `This figure could not be drawn: ${error.message}`;
        reportError(error);
      }
    }
    drawing -= 1;
    root.dataset.theme = theme;
    if (!drawing) root.dataset.charts = document.querySelector(".chart.failed") ? "failed" : "drawn";
  };
  const lookNow = () => ({ theme: dark.matches ? "dark" : "light", narrow: narrow.matches });
  let look = lookNow(); // of what was drawn last
  const drawAll = () => {
    turn += 1;
    look = lookNow();
    return draw(document.querySelectorAll(".chart"));
  };

  // Draws again what has a width by now; everything, where the look is another.
  let printing = false;
  const redraw = () => {
    if (printing) return;
    const { theme, narrow: isNarrow } = lookNow();
    if (theme !== look.theme || isNarrow !== look.narrow) {
      drawAll();
      return;
    }
    const shown = [...unseen].filter((place) => place.clientWidth);
    for (const place of shown) unseen.delete(place);
    if (shown.length) draw(shown);
  };
  addEventListener("toggle", redraw, true); // of any folded part: it does not bubble

  // What a finger or a key points at is given to Vega as if a mouse did: it shows the tooltip and the crosshair.
  const spoken = document.getElementById("spoken");
  const tooltip = document.getElementById("vg-tooltip-element");
  let touched = null;
  const tell = (mark, types, at) => types.forEach((type) => mark.dispatchEvent(new PointerEvent(type, { bubbles: true, ...at })));
  const leave = (mark) => tell(mark, ["pointerout", "mouseout"]); // the crosshair goes with the first, the tooltip with the second
  const release = () => {
    if (touched) leave(touched);
    touched = null;
    spoken.textContent = "";
  };
  const touch = (mark, at) => {
    release();
    touched = mark;
    tell(mark, ["pointerover", "pointermove"], at);
    const { left, width } = tooltip.getBoundingClientRect(); // Vega lets a wide one begin left of a phone's edge
    tooltip.style.left = `${Math.max(0, Math.min(left, root.clientWidth - width))}px`;
    spoken.textContent = Object.entries(mark.__data__.tooltip).map((pair) => pair.join(" ")).join(", ");
  };

  // The marks of the layer that answers (see `touch` in report/charts/parts.py), or their Voronoi cells, from left to right.
  const marksOf = (place) => {
    const marks = (place.querySelector(".touch_voronoi") ?? place.querySelector(".touch_marks"))?.children ?? [];
    const points = Array.from(marks, (mark) => {
      const item = mark.__data__.isVoronoi ? mark.__data__.datum : mark.__data__;
      const { curve, row, label } = item.datum;
      return { mark, item, series: curve ?? row ?? label, x: (item.bounds.x1 + item.bounds.x2) / 2 };
    });
    const names = [...new Set(points.map((each) => each.series))];
    const shown = points.filter(({ x, item }) => x >= 0 && x <= item.mark.group.width).sort((a, b) => a.x - b.x);
    return names.map((name) => shown.filter((each) => each.series === name)).filter((each) => each.length);
  };
  const nextOf = (rows, key) => {
    const row = rows.findIndex((each) => each.some(({ mark }) => mark === touched));
    if (row < 0) return rows[0]?.[0];
    const own = rows[row];
    const at = own.findIndex(({ mark }) => mark === touched);
    const distance = ({ x }) => Math.abs(x - own[at].x);
    const nearest = (other) => other?.reduce((a, b) => (distance(b) < distance(a) ? b : a));
    return {
      ArrowLeft: () => own[Math.max(at - 1, 0)],
      ArrowRight: () => own[Math.min(at + 1, own.length - 1)],
      Home: () => own[0],
      End: () => own.at(-1),
      ArrowUp: () => nearest(rows[row - 1]),
      ArrowDown: () => nearest(rows[row + 1]),
    }[key]();
  };
  const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];
  for (const place of document.querySelectorAll(".chart")) {
    place.addEventListener("click", ({ target, clientX, clientY }) => {
      if (target.__data__?.tooltip) touch(target, { clientX, clientY });
    });
    place.addEventListener("keydown", (event) => {
      if (event.key === "Escape") release();
      if (event.target !== place || !KEYS.includes(event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
      const next = nextOf(marksOf(place), event.key);
      if (!next) return;
      event.preventDefault();
      place.scrollIntoView({ block: "nearest", behavior: "instant" });
      const { left, top, width, height } = next.item._svg.getBoundingClientRect();
      touch(next.mark, { clientX: left + width / 2, clientY: top + height / 2 });
    });
    place.addEventListener("focusout", release);
    // A finger that scrolls the page leaves no tooltip behind.
    place.addEventListener("pointerout", ({ target, pointerType }) => pointerType === "touch" && leave(target));
  }
  addEventListener("pointerdown", release);

  // On paper everything is shown, folded parts too. Figures stay as they are: drawing takes longer than printing
  // waits, and the style sheet fits them to the paper.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    printing = true;
    unfolded = [...document.querySelectorAll("main details:not([open])")].filter((part) => !part.closest(".chart"));
    for (const part of unfolded) part.open = true;
  });
  addEventListener("afterprint", () => {
    printing = false;
    for (const part of unfolded) part.open = false;
    redraw();
  });
  dark.addEventListener("change", redraw);
  narrow.addEventListener("change", redraw);
  drawAll();
})();
