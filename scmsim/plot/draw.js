// Draw every chart of `specs` into #chart-NAME in the theme of the reader, again when the theme changes, light on paper.
const dark = matchMedia("(prefers-color-scheme: dark)");
function fitted(spec, room) {
  // panels bring their own width, which a phone does not have: its axis and its label take some 90 px
  const one = {...spec};
  for (const parts of ["vconcat", "hconcat", "concat", "layer"]) if (one[parts]) one[parts] = one[parts].map((part) => fitted(part, room));
  if (one.spec) one.spec = fitted(one.spec, room);
  if (typeof one.width === "number") one.width = Math.max(120, Math.min(one.width, room - 90));
  if (one.hconcat && room < 700) { one.vconcat = one.hconcat; delete one.hconcat; }
  if (one.facet && one.columns && room < 700) one.columns = 1;
  return one;
}
async function draw(isDark) {
  for (const [name, spec] of Object.entries(specs)) {
    const place = document.getElementById("chart-" + name);
    const options = { actions: false, renderer: "svg", config: {...themes[isDark ? "dark" : "light"], background: "transparent"}, tooltip: { theme: isDark ? "dark" : "light" } };
    await vegaEmbed(place, fitted(spec, place.clientWidth), options);
  }
  document.documentElement.dataset.drawn = Object.keys(specs).length;
}
draw(dark.matches);
dark.addEventListener("change", (event) => draw(event.matches));
addEventListener("beforeprint", () => draw(false));
addEventListener("afterprint", () => draw(dark.matches));
