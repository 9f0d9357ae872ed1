"use strict";
// Draws what lies in #measured: one plot below the other, on one axis of time. All text goes in as text.
(() => {
  const measured = JSON.parse(document.getElementById("measured").textContent);
  const section = document.getElementById("plots");
  const place = document.getElementById("draw");
  const whole = document.getElementById("whole");
  const times = measured.times;
  const first = times[0], last = Math.max(measured.until, first + measured.step);
  const sync = uPlot.sync("time");
  let plots = [];

  const element = (name, text) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const LINES = ["--copy", "--wait", "--step", "--save", "--log", "--ranks", "--sync", "--around"];
  const SPANS = {
    "loader.wait": "--wait", checkpoint: "--save", cleanup: "--save", evaluation: "--judge", logging: "--log", reporting: "--log",
    sync: "--sync", "copy.h2d": "--copy", environment: "--log", policy: "--judge", collective: "--ranks", samples: "--step", steps: "--step",
    "cpu.main": "--step", "cpu.workers": "--copy", "cpu.rest": "--log", "cpu.others": "--wait",
  };
  const lineColour = (line, index) => colour(SPANS[line.name] || LINES[index % LINES.length]);

  const digits = (value) => Math.abs(value) >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
  const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const scaled = (value, unit) => {
    const [by, letter] = UNITS.find(([size]) => Math.abs(value) >= size) || [1, ""];
    return digits(value / by) + " " + letter + unit;
  };
  const shown = (value, unit) => {
    if (value === null || value === undefined) return "–";
    if (unit === "ratio") return digits(value * 100) + " %";
    if (unit === "B" || unit === "B/s" || unit === "W") return scaled(value, unit);
    return digits(value) + (unit === "1" ? "" : unit === "1/s" ? " /s" : " " + unit);
  };
  const two = (value) => String(Math.floor(value)).padStart(2, "0");
  const moment = (s) => {
    const span = last - first;
    if (span < 120) return Number(s.toFixed(1)) + " s";
    if (span < 7200) return Math.floor(s / 60) + ":" + two(s % 60);
    if (span < 172800) return Math.floor(s / 3600) + ":" + two((s % 3600) / 60) + " h";
    return Math.floor(s / 86400) + " d " + two((s % 86400) / 3600) + " h";
  };

  const zoom = (min, max) => {
    const wide = Math.min(last - first, Math.max(measured.step, max - min));
    min = Math.max(first, Math.min(min, last - wide));
    max = min + wide;
    whole.hidden = wide >= last - first;
    section.dataset.from = min.toFixed(3);
    section.dataset.to = max.toFixed(3);
    for (const plot of plots) if (plot.scales.x.min !== min || plot.scales.x.max !== max) plot.setScale("x", { min, max });
  };
  const move = (by, wider) => {
    const { min, max } = plots[0].scales.x, wide = (max - min) * wider, middle = (min + max) / 2 + by * (max - min);
    zoom(middle - wide / 2, middle + wide / 2);
  };

  const bands = (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const band of measured.bands) {
      ctx.fillStyle = colour(SPANS[band.name] || "--around");
      band.share.forEach((share, index) => {
        if (share < 0.01) return;
        const left = plot.valToPos(times[index], "x", true), right = plot.valToPos(times[index] + measured.step, "x", true);
        ctx.globalAlpha = 0.06 + 0.3 * Math.min(1, share);
        ctx.fillRect(left, bbox.top, Math.max(1, right - left), bbox.height);
      });
    }
    ctx.restore();
  };

  const alone = (values) => { // a line shows nothing of a point without neighbours
    const found = [];
    values.forEach((value, at) => {
      if (value !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null) found.push(at);
    });
    return found;
  };

  const figure = (about) => {
    const made = element("figure"), caption = element("figcaption"), legend = element("span");
    made.className = "plot";
    legend.className = "legend";
    const values = about.lines.map((line, index) => {
      const entry = element("span"), key = element("i"), value = element("b");
      key.style.background = lineColour(line, index);
      entry.append(key, element("span", line.label + " "), value);
      legend.append(entry);
      return value;
    });
    if (about.more) legend.append(element("span", "and " + about.more + " more"));
    caption.append(element("b", about.title), legend);
    made.append(caption);
    place.append(made);
    return { made, values };
  };

  const draw = (about) => {
    const { made, values } = figure(about);
    const series = [{}], data = [times], between = [];
    about.lines.forEach((line, index) => {
      const stroke = lineColour(line, index);
      if (line.spread.length) {
        data.push(line.spread[1], line.spread[0]);
        series.push({ stroke: "transparent", points: { show: false } }, { stroke: "transparent", points: { show: false } });
        between.push({ series: [series.length - 2, series.length - 1], fill: stroke + "33" });
      }
      data.push(line.mean);
      series.push({ stroke, width: 1.5, points: { show: true, size: 4, width: 0, fill: stroke, filter: () => alone(line.mean) } });
    });
    const tell = (plot) => {
      const at = plot.cursor.idx;
      about.lines.forEach((line, index) => {
        values[index].textContent = at === null || at === undefined ? "" : shown(line.mean[at], about.unit);
      });
    };
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const options = {
      width: made.clientWidth, height: 132, pxAlign: 0, padding: [6, 22, 0, 0], series, bands: between, legend: { show: false },
      scales: {
        x: { time: false, range: (plot, min, max) => min === null ? [first, last] : [min, max] },
        y: { range: (plot, min, max) => [Math.min(0, min || 0), about.most || (max > 0 ? max * 1.08 : 1)] },
      },
      axes: [
        { ...axis, values: (plot, splits) => splits.map(moment), size: 24 },
        { ...axis, values: (plot, splits) => splits.map((value) => shown(value, about.unit)), size: 68, space: 34 },
      ],
      cursor: {
        y: false, points: { show: false }, drag: { x: true, y: false, setScale: false },
        sync: { key: sync.key, setSeries: false, filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
        bind: { dblclick: () => () => { zoom(first, last); return null; } },
      },
      hooks: {
        setCursor: [tell],
        drawClear: [bands],
        setSelect: [(plot) => {
          const { left, width } = plot.select;
          if (width < 4) return;
          const from = plot.posToVal(left, "x"), to = plot.posToVal(left + width, "x");
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          zoom(from, to);
        }],
      },
    };
    const plot = new uPlot(options, data, made);
    sync.sub(plot);
    return plot;
  };

  const all = () => {
    const { from, to } = section.dataset;
    plots.forEach((plot) => { sync.unsub(plot); plot.destroy(); });
    place.textContent = "";
    plots = measured.plots.map(draw);
    zoom(from === undefined ? first : Number(from), to === undefined ? last : Number(to));
    section.dataset.drawn = plots.length;
  };

  section.hidden = false;
  const names = document.getElementById("bands");
  const legend = () => {
    names.textContent = "";
    for (const band of measured.bands) {
      const entry = element("span"), key = element("i");
      key.style.background = colour(SPANS[band.name] || "--around");
      entry.append(key, element("span", band.name));
      names.append(entry);
    }
    if (measured.bands.length) names.prepend(element("span", "bands:"));
    if (measured.of) names.prepend(element("span", "of " + measured.of));
  };
  legend();
  all();
  whole.addEventListener("click", () => zoom(first, last));
  for (const [name, by, wider] of [["in", 0, 0.5], ["out", 0, 2], ["left", -0.25, 1], ["right", 0.25, 1]])
    document.getElementById("zoom-" + name).addEventListener("click", () => move(by, wider));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { legend(); all(); });
  let wide = place.clientWidth;
  new ResizeObserver(() => {
    if (place.clientWidth === wide || !place.clientWidth) return;
    wide = place.clientWidth;
    plots.forEach((plot) => plot.setSize({ width: plot.root.parentElement.clientWidth, height: plot.height }));
  }).observe(place);
})();
