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
      window: { color: look.muted, stroke: look.muted },
      "window-name": { color: look.ink },
      change: { color: look.palette[3] },
      stall: { color: look.palette[3] },
      "sent-bin": { color: look.palette[1] },
    },
    axis: {
      labelColor: look.muted, titleColor: look.muted, domainColor: look.line, tickColor: look.line,
      gridColor: look.grid, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelFlush: false,
    },
    legend: {
      orient: "top", direction: "horizontal", columns: narrow.matches ? 2 : innerWidth < 1000 ? 3 : 4, labelColor: look.ink,
      labelFontSize: 12, labelLimit: narrow.matches ? 120 : 220, symbolSize: 90, columnPadding: 18,
      symbolLimit: 0,
    },
  });

  const drawn = new Map();
  const draw = async (place, theme) => {
    const figure = page.figures[place.id];
    const datasets = {};
    for (const [name, source] of Object.entries(figure.data)) datasets[name] = rowsOf(page.datasets[source]);
    const chart = page.charts[figure.chart];
    const params = chart.params.map((each) => (each.name in figure.params ? { ...each, value: figure.params[each.name] } : each));
    // An axis over no rows has no extent, and Vega warns of it.
    const layer = chart.layer.filter((each) => each.name || datasets[each.data.name].length);
    const specification = { ...chart, layer, datasets, params, height: figure.height ?? chart.height };
    // A folded part has no width of its own. Its figures are drawn as wide as the page, so that paper has them, too.
    if (!place.clientWidth) specification.width = document.querySelector("main").clientWidth;
    const earlier = drawn.get(place.id);
    const result = await vegaEmbed(place, specification, {
      actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
      config: config(looks[theme]),
      downloadFileName: `${document.body.dataset.run}-${place.id}`,
      renderer: "svg",
      scaleFactor: { png: 2 },
      tooltip: { theme },
      i18n: { CLICK_TO_VIEW_ACTIONS: "Save this figure" },
    });
    if (earlier) earlier.finalize();
    drawn.set(place.id, result);
    place.querySelector("summary").setAttribute("aria-label", "Save this figure");
  };

  let turn = 0;
  let printing = false;
  const drawAll = async () => {
    const mine = ++turn;
    const theme = dark.matches ? "dark" : "light";
    root.dataset.charts = "drawing";
    for (const place of document.querySelectorAll(".chart")) {
      try {
        await draw(place, theme);
      } catch (error) {
        place.textContent = `This figure could not be drawn: ${error.message}`;
        root.dataset.charts = "failed";
        throw error;
      }
      if (mine !== turn) return;
    }
    root.dataset.theme = theme;
    root.dataset.charts = "drawn";
  };

  let opening = 0;
  for (const fold of document.querySelectorAll("details.fold")) {
    fold.addEventListener("toggle", async () => {
      if (!fold.open || printing) return;
      opening += 1;
      root.dataset.charts = "drawing";
      for (const place of fold.querySelectorAll(".chart")) await draw(place, root.dataset.theme ?? "light");
      opening -= 1;
      if (!opening) root.dataset.charts = "drawn";
    }, { once: true });
  }

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
  });
  const redraw = () => printing || drawAll();
  dark.addEventListener("change", redraw);
  narrow.addEventListener("change", redraw);
  drawAll();
})();
