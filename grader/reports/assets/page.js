(() => {
  const root = document.documentElement;
  const remembered = () => { try { return localStorage.getItem("flashdojo-lang"); } catch { return null; } };
  const show = (lang) => {
    root.dataset.lang = lang;
    root.lang = lang === "zh" ? "zh-Hans" : "en";
    const title = root.dataset["title" + (lang === "zh" ? "Zh" : "En")];
    if (title) document.title = title;
    const button = document.querySelector(`.switch input[value="${lang}"]`);
    if (button) button.checked = true;
  };
  document.querySelectorAll(".switch input").forEach((input) => input.addEventListener("change", () => {
    show(input.value);
    try { localStorage.setItem("flashdojo-lang", input.value); } catch { /* a page from a file may not remember */ }
  }));
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", open);
  const lang = remembered();
  if (lang === "zh" || lang === "en") show(lang);
  open();
})();
