(() => {
  const root = document.documentElement;
  const all = JSON.parse(document.getElementById("figures").textContent);
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const still = { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false };
  const dressed = (layout) => {
    const ink = css("--ink"), line = css("--line"), card = css("--card");
    const axes = Object.fromEntries(Object.entries(layout).filter(([key]) => /^[xy]axis/.test(key)).map(
      ([key, axis]) => [key, { ...axis, gridcolor: line, linecolor: line, tickcolor: line }]));
    const font = { color: ink, family: getComputedStyle(document.body).fontFamily, size: innerWidth < 640 ? 11 : 13 };
    return { ...layout, ...axes, font, hoverlabel: { ...layout.hoverlabel, bgcolor: card, bordercolor: line, font },
      dragmode: matchMedia("(pointer: coarse)").matches ? false : layout.dragmode };
  };
  const legend = (place, data) => {
    const named = data.filter((trace) => trace.name);
    let list = place.nextElementSibling;
    if (list && list.tagName !== "UL") list = null;
    if (!named.length) { list?.remove(); return; }
    if (!list) { list = document.createElement("ul"); list.className = "keys"; place.after(list); }
    list.replaceChildren(...named.map((trace) => {
      const item = document.createElement("li"), mark = document.createElement("i");
      const colour = trace.marker?.color ?? trace.line?.color;
      mark.style.background = Array.isArray(colour) ? colour[0] : colour;
      if (trace.mode === "lines") mark.className = "line";
      if (trace.mode === "markers") mark.className = trace.marker.symbol.endsWith("open") ? "dot open" : "dot";
      item.append(mark, trace.name);
      return item;
    }));
  };
  const draw = () => {
    const lang = root.dataset.lang === "zh" ? "zh" : "en";
    for (const [name, spoken] of Object.entries(all)) {
      const place = document.getElementById("figure-" + name);
      const { data, layout } = spoken[lang];
      if (!place) continue;
      Plotly.react(place, data, dressed(layout), still);
      place.setAttribute("aria-label", place.dataset[lang === "zh" ? "labelZh" : "labelEn"]);
      legend(place, data);
    }
    root.dataset.drawn = lang;
  };
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver((changes) => {
    if (root.dataset.drawn !== root.dataset.lang) draw();
  }).observe(root, { attributeFilter: ["data-lang"] });
})();
