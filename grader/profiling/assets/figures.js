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
  const draw = () => {
    const lang = root.dataset.lang === "zh" ? "zh" : "en";
    for (const [name, spoken] of Object.entries(all)) {
      const place = document.getElementById("figure-" + name);
      const { data, layout } = spoken[lang];
      if (place) Plotly.react(place, data, dressed(layout), still);
    }
    root.dataset.drawn = lang;
  };
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver((changes) => {
    if (root.dataset.drawn !== root.dataset.lang) draw();
  }).observe(root, { attributeFilter: ["data-lang"] });
})();
