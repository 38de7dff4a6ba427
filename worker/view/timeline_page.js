// Draws the chart and lets a reader step through the changes: the sentences shown at one change, and what it changed.
// Texts are copied as nodes or set as text, never as markup.
{
  const by = (id) => document.getElementById(id);
  const chart = timeline(JSON.parse(by("history").textContent));
  by("chart").replaceChildren(chart);
  const plot = chart.querySelector(".plot"), slider = by("at"), card = by("card"), only = by("only");
  const steps = [...plot.querySelectorAll(".step")];
  const rows = [...plot.querySelectorAll(".row")].map((row) => ({
    row,
    bars: [...row.querySelectorAll(".bar")].map((bar) => ({
      bar,
      first: Number(bar.dataset.first),
      last: bar.dataset.last === undefined ? Infinity : Number(bar.dataset.last),
    })),
  }));
  const count = steps.length;
  const place = (element, name) => Number(element.style.getPropertyValue(name));
  const axis = () => (chart.dataset.axis === "steps" ? "--sa" : "--a");

  function select(number) {
    const at = Math.min(Math.max(number, 1), count);
    slider.value = at;
    by("which").textContent = `change ${at.toLocaleString("en")} of ${count.toLocaleString("en")}`;
    for (const { row, bars } of rows) {
      for (const { bar, first, last } of bars) bar.classList.toggle("on", first <= at && at < last);
      row.classList.toggle("on", bars.some((one) => one.first <= at && at < one.last));
      row.classList.toggle("came", bars.some((one) => one.first === at && !one.bar.classList.contains("from-before")));
      row.classList.toggle("left", bars.some((one) => one.last === at) && !row.classList.contains("on"));
    }
    chart.style.setProperty("--ca", place(steps[at - 1], "--a"));
    chart.style.setProperty("--csa", place(steps[at - 1], "--sa"));
    const change = by(`change-${at}`);
    card.replaceChildren(...[...change.children].map((one) => one.cloneNode(true)));
  }

  function look(number) {
    chart.classList.add("looking");
    select(number);
  }

  function go(number) {
    look(number);
    const changed = rows.find(({ row }) => row.matches(".came, .left"));
    if (changed === undefined) return;
    const { top, bottom } = changed.row.getBoundingClientRect();
    const box = plot.getBoundingClientRect();
    const head = plot.querySelector(".head").offsetHeight;
    if (top < box.top + head || bottom > box.bottom) plot.scrollTop += top - box.top - box.height / 2;
  }

  function nearest(event) {
    const box = steps[0].parentElement.getBoundingClientRect();
    const wanted = (100 * (event.clientX - box.left)) / box.width;
    const distance = (step) => Math.abs(place(step, axis()) - wanted);
    let best = 0;
    for (let i = 1; i < count; i++) if (distance(steps[i]) <= distance(steps[best])) best = i;
    return best + 1;
  }

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  function line(text) {
    const paragraph = document.createElement("p");
    paragraph.textContent = text;
    paragraph.dir = "auto";
    return paragraph;
  }

  function explain(event) {
    const row = event.target.closest(".row");
    if (row === null) return void (tip.hidden = true);
    const { bars } = rows.find((one) => one.row === row);
    const rating = row.querySelector(".rating");
    const spans = bars.map(({ first, last }) => (last === Infinity ? `${first} –` : `${first} – ${last}`));
    tip.replaceChildren(
      line(row.querySelector("q").textContent),
      line(row.querySelector("small").textContent + (rating ? `, rated ${rating.textContent}` : "")),
      line(`shown: change ${spans.slice(0, 8).join(", ")}${spans.length > 8 ? " and more" : ""}`),
    );
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const below = event.clientY + 18 + height < innerHeight;
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - width - 8))}px`;
    tip.style.top = `${below ? event.clientY + 18 : Math.max(8, event.clientY - height - 12)}px`;
  }

  slider.addEventListener("input", () => go(Number(slider.value)));
  by("back").addEventListener("click", () => go(Number(slider.value) - 1));
  by("on").addEventListener("click", () => go(Number(slider.value) + 1));
  only.addEventListener("change", () => chart.classList.toggle("few", only.checked));
  for (const radio of document.querySelectorAll("input[name=axis]"))
    radio.addEventListener("change", () => (chart.dataset.axis = radio.value));
  plot.addEventListener("click", (event) => event.target.closest(".track") && look(nearest(event)));
  plot.addEventListener("pointermove", explain);
  plot.addEventListener("pointerdown", explain);
  plot.addEventListener("pointerleave", () => (tip.hidden = true));
  plot.addEventListener("scroll", () => (tip.hidden = true), { passive: true });
  plot.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: Number(slider.value) - 1, ArrowRight: Number(slider.value) + 1, Home: 1, End: count };
    if (!(event.key in moves)) return;
    event.preventDefault();
    go(moves[event.key]);
  });

  chart.classList.add("live");
  by("controls").hidden = card.hidden = false;
  select(count);
}
