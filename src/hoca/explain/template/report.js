"use strict";
// Everything shown is made of text nodes and attributes: names and words are never read as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const spoken = document.getElementById("spoken");
const ORDERS = ["", "unary", "binary", "ternary"];
const MEANING = "The model's own estimate: how likely this sentence is to fit the clip better than half of what people would write about it.";
const LABELS = new Map(Object.entries(data.labels));
const label = (modality) => LABELS.get(modality) || modality;
const percent = (x) => `${Math.round(100 * x)} %`;
const width = (x) => `${(100 * x).toFixed(1)}%`;
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const seconds = (x) => `${x.toFixed(1)} s`;

function make(tag, properties = {}, ...children) {
  const space = ["svg", "path", "stop", "linearGradient", "defs"].includes(tag) ? "http://www.w3.org/2000/svg" : null;
  const node = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function probability(logprob) {
  const p = Math.exp(logprob);
  if (p >= 0.1) return percent(p);
  if (p >= 0.0005) return `${(100 * p).toPrecision(2)} %`;
  return p.toExponential(0).replace("e-", "·10⁻").replace(/⁻(\d+)/, (_, n) => "⁻" + [...n].map((d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]).join(""));
}

// How strongly to light each step: from the word's least weight (0) to its greatest (1), but weights that differ by less
// than a fifth of an even share are shown the nearer to one half the more even they are.
function lights(weights) {
  const least = Math.min(...weights);
  const difference = Math.max(...weights) - least;
  const spread = Math.max(difference, 0.2 / weights.length);
  return weights.map((weight) => ((weight - least) / spread + (1 - difference / spread) / 2).toFixed(3));
}

// Windows that overlap are drawn up to the middle of what they share, so that nothing looks darker than its weight.
function apart(spans) {
  return spans.map(([start, end], step) => {
    const before = step > 0 ? spans[step - 1][1] : 0;
    const after = step + 1 < spans.length ? spans[step + 1][0] : end;
    return [before > start ? (before + start) / 2 : start, after < end ? (after + end) / 2 : end];
  });
}

const largest = (row) => row.indexOf(Math.max(...row));
const middle = ([start, end]) => (start + end) / 2;
const mean = (tables) => tables[0].map((row, l) => row.map((_, t) => tables.reduce((sum, table) => sum + table[l][t], 0) / tables.length));

function nearest(times, time) {
  const distances = times.map((other) => Math.abs(other - time));
  return distances.indexOf(Math.min(...distances));
}

// Which steps each picture stands for: of a short clip, several; where another model has fewer steps, the nearest one.
function stepsOfPictures(spans) {
  const pictures = data.thumbnails.map((picture) => picture.middle);
  const steps = spans.map(middle);
  const owners = steps.map((time) => nearest(pictures, time));
  return pictures.map((time, number) => {
    const own = steps.map((_, step) => step).filter((step) => owners[step] === number);
    return own.length ? own : [nearest(steps, time)];
  });
}

// A lane draws one modality (or one of its groups) over time and returns how to light it.
function filmLane(track, spans) {
  track.classList.add("film");
  if (data.thumbnails.length > 40) track.classList.add("many");
  const steps = stepsOfPictures(spans);
  const cells = data.thumbnails.map((picture) => {
    const cell = make("div", { class: "cell", title: seconds(picture.time) }, make("img", { src: picture.source, alt: "" }));
    track.append(cell);
    return cell;
  });
  return (weights) => {
    const light = lights(weights);
    const top = largest(weights);
    cells.forEach((cell, number) => {
      const step = steps[number].reduce((best, other) => (weights[other] > weights[best] ? other : best));
      cell.style.setProperty("--w", light[step]);
      cell.classList.toggle("top", step === top);
      cell.title = `${seconds(data.thumbnails[number].time)}, α ${weights[step].toFixed(3)}`;
    });
  };
}

function windowLane(track, spans) {
  track.classList.add("windows");
  const bars = apart(spans).map(([start, end]) => {
    const bar = make("i");
    bar.style.left = width(start / data.duration);
    bar.style.width = width((end - start) / data.duration);
    track.append(bar);
    return bar;
  });
  return (weights) => {
    const light = lights(weights);
    bars.forEach((bar, step) => {
      bar.style.setProperty("--w", light[step]);
      bar.title = `${seconds(spans[step][0])} to ${seconds(spans[step][1])}, α ${weights[step].toFixed(3)}`;
    });
  };
}

let gradients = 0;
function soundLane(track, spans) {
  track.classList.add("sound");
  const name = `sound-${gradients++}`;
  const heights = data.envelope.map((peak) => 2 + 46 * Math.sqrt(peak));
  const upper = heights.map((height, x) => `${x},${(50 - height).toFixed(1)}`);
  const lower = heights.map((height, x) => `${x},${(50 + height).toFixed(1)}`).reverse();
  const outline = `M${upper.join("L")}L${lower.join("L")}Z`;
  const dark = (time) => make("stop", { offset: time / data.duration, "stop-opacity": 0 });
  const stops = apart(spans).map((span) => span.map(dark));
  const gradient = make("linearGradient", { id: name }, ...stops.flat(), dark(spans.at(-1)[1])); // what follows was not heard
  const attributes = { viewBox: `0 0 ${heights.length - 1} 100`, preserveAspectRatio: "none", "aria-hidden": "true" };
  const drawing = make("svg", attributes, make("defs", {}, gradient), make("path", { d: outline }), make("path", { d: outline }));
  drawing.lastChild.style.fill = `url(#${name})`;
  track.append(drawing);
  return (weights) => {
    const light = lights(weights);
    stops.forEach((pair, step) => pair.forEach((stop) => stop.setAttribute("stop-opacity", light[step])));
  };
}

function lane(parent, heading, draw, spans, options = "") {
  const track = make("div", { class: "track" });
  parent.append(make("div", { class: `lane ${options}` }, heading, track));
  return draw(track, spans);
}

// Whether the model says how much a modality counts for each word.
const weighed = (modality) => modality.share.length > 0;

function words(said, show) {
  const sentence = make("h1", { class: "sentence" });
  const buttons = said.words.map((word, number) => {
    const mix = make("span", { class: "mix", "aria-hidden": "true" });
    said.modalities.filter(weighed).forEach((modality, m) => {
      const part = make("i", { class: `m${m % 5}` });
      part.style.flexGrow = modality.share[number];
      mix.append(part);
    });
    const button = make("button", { type: "button", class: "word", "aria-pressed": "false" }, word, mix);
    for (const event of ["mouseenter", "focus", "click"]) button.addEventListener(event, () => show(number));
    button.addEventListener("keydown", (event) => {
      const to = { ArrowRight: number + 1, ArrowLeft: number - 1, Home: 0, End: buttons.length - 1 }[event.key];
      if (to === undefined || !buttons[to]) return;
      event.preventDefault();
      buttons[to].focus();
    });
    sentence.append(button, " ");
    return button;
  });
  if (said.sure) sentence.append(make("span", { class: said.unsure ? "sure unsure" : "sure", title: MEANING }, said.sure));
  return [sentence, buttons];
}

// A box with a bar for each of the rows [name, number of its colour, value at each word].
function wordBars(said, heading, rowsOf) {
  const title = make("em");
  const box = make("div", { class: "shares" }, make("h2", {}, heading, title));
  const rows = rowsOf.map(([name, m, values]) => {
    const bar = make("i");
    const value = make("span", { class: "value" });
    box.append(make("span", { class: `name m${m % 5}` }, name), make("div", { class: `bar m${m % 5}` }, bar), value);
    return (number) => {
      bar.style.width = width(values[number]);
      value.textContent = percent(values[number]);
    };
  });
  const show = (number) => {
    title.textContent = said.words[number];
    rows.forEach((row) => row(number));
  };
  return [box, show];
}

// What counted for a word, and what it chose among: boxes of bars, those that the model can tell of.
function shareBoxes(said) {
  const boxes = [];
  const counted = said.modalities.filter(weighed).map((modality, m) => [label(modality.name), m, modality.share]);
  if (counted.length) boxes.push(wordBars(said, "What counted for ", counted));
  for (const [what, options] of Object.entries(said.choices)) {
    const rows = Object.entries(options).map(([name, values]) => {
      const modality = said.modalities.findIndex((each) => each.name === name);
      return [label(name), modality < 0 ? said.modalities.length : modality, values];
    });
    boxes.push(wordBars(said, `${capital(what)} chosen for `, rows));
  }
  return boxes;
}

function found(said) {
  return Object.entries(said.found).map(([what, items]) => {
    const list = make("ol");
    for (const [name, p] of items) {
      const bar = make("i");
      bar.style.width = width(p);
      const value = make("span", { class: "value" }, percent(p));
      list.append(make("li", {}, make("div", { class: "bar", "aria-hidden": "true" }, bar), value, make("span", {}, name)));
    }
    return make("div", { class: "beam found" }, make("h2", {}, `Found in the video: ${what}`), list);
  });
}

function orderSwitch(said, number, choose) {
  const orders = [...new Set(said.modalities.flatMap((m) => m.groups.map((g) => g.members.length)))].sort();
  const box = make("fieldset", { class: "orders" }, make("legend", {}, "attention"));
  for (const order of [0, ...orders]) {
    const name = order === 0 ? "merged" : ORDERS[order] || `order ${order}`;
    const radio = make("input", { type: "radio", name: `order-${number}`, value: order });
    radio.checked = order === 0;
    radio.addEventListener("change", () => choose(order));
    box.append(make("label", {}, radio, make("span", {}, name)));
  }
  return box;
}

// The lanes of all modalities; `look` is told what the pictures are given, for the word and the order that are shown.
function timeline(said, box, look) {
  let order = 0;
  let current = 0;
  let drawn = [];
  const image = said.modalities.findIndex((modality) => modality.name === "image");

  function draw() {
    box.replaceChildren();
    drawn = [];
    if (image < 0 && data.thumbnails.length) lane(box, make("div"), filmLane, data.thumbnails.map(({ time }) => [time, time]))(data.thumbnails.map(() => 1));
    said.modalities.forEach((modality, m) => {
      const groups = modality.groups.filter((group) => group.members.length === order);
      const rows = order === 0 ? modality.weights : groups.length ? mean(groups.map((group) => group.weights)) : null;
      const range = make("span", { class: "range" });
      const heading = make("div", {}, make("span", { class: "name" }, label(modality.name)), range);
      if (!rows) {
        const missing = make("div", { class: "missing" }, `no ${ORDERS[order] || "such"} attention`);
        box.append(make("div", { class: `lane m${m % 5}` }, heading, missing));
        return;
      }
      const heard = modality.name === "audio" && data.envelope.length;
      const light = lane(box, heading, m === image && data.thumbnails.length ? filmLane : heard ? soundLane : windowLane, modality.spans, `m${m % 5}`);
      drawn.push((number) => {
        light(rows[number]);
        if (m === image && data.thumbnails.length) look(rows[number], modality.spans);
        range.textContent = `α ${Math.min(...rows[number]).toFixed(3)} to ${Math.max(...rows[number]).toFixed(3)}`;
      });
      if (order === 0) return;
      for (const group of groups) {
        const others = group.members.filter((member) => member !== modality.name);
        const name = others.length ? `with ${others.map(label).join(" and ")} ` : "alone ";
        const theta = group.theta === null ? [] : ["θ ", make("b", {}, group.theta.toFixed(3))];
        const lit = lane(box, make("div", { class: "group" }, name, ...theta), windowLane, modality.spans, `sub m${m % 5}`);
        drawn.push((number) => lit(group.weights[number]));
      }
    });
    for (const [name, why] of Object.entries(said.absent)) {
      box.append(make("div", { class: "lane" }, make("span", { class: "name" }, label(name)), make("div", { class: "missing" }, why)));
    }
    const ticks = [0, 1, 2, 3, 4].map((quarter) => make("span", {}, seconds((quarter * data.duration) / 4)));
    box.append(make("div", { class: "lane", "aria-hidden": "true" }, make("span"), make("div", { class: "axis" }, ...ticks)));
  }

  const show = (number) => {
    current = number;
    drawn.forEach((light) => light(number));
  };
  const choose = (chosen) => {
    order = chosen;
    draw();
    show(current);
  };
  draw();
  return [show, choose];
}

function alternatives(said) {
  const list = make("ol");
  const best = Math.exp(said.logprob);
  for (const [text, logprob] of [[said.text, said.logprob], ...said.alternatives]) {
    const bar = make("i");
    bar.style.width = width(Math.min(1, Math.exp(logprob) / best));
    const value = make("span", { class: "value" }, probability(logprob));
    list.append(make("li", {}, make("div", { class: "bar", "aria-hidden": "true" }, bar), value, make("span", {}, text)));
  }
  return make("div", { class: "beam" }, make("h2", {}, "Sentences that it weighed, with their probabilities"), list);
}

function firstWord(said) {
  const lengths = said.words.map((word) => word.length);
  return lengths.indexOf(Math.max(...lengths));
}

function captionCard(said, place) {
  const picture = make("img", { alt: "" });
  if (data.thumbnails.length) picture.src = data.thumbnails[0].source;
  picture.style.setProperty("--ratio", data.ratio);
  const caption = make("figcaption");
  const look = (weights, spans) => {
    const pictures = data.thumbnails.map((each) => each.middle);
    const seen = data.thumbnails[nearest(pictures, middle(spans[largest(weights)]))];
    picture.src = seen.source;
    picture.alt = caption.textContent = `The frame that it looked at most, at ${seconds(seen.time)}`;
  };
  const lanes = make("div", { class: "timeline" });
  const boxes = shareBoxes(said);
  const [showLanes, chooseOrder] = timeline(said, lanes, look);
  const show = (number) => {
    buttons.forEach((button, other) => button.setAttribute("aria-pressed", other === number));
    boxes.forEach(([, showBox]) => showBox(number));
    showLanes(number);
    spoken.textContent = describe(said, number);
  };
  const [sentence, buttons] = words(said, show);
  const section = make("section", { class: "caption", "aria-label": `What ${said.model} said` });
  section.append(
    make("p", { class: "model" }, make("strong", {}, said.model), ` · ${said.kind} · p = ${probability(said.logprob)}`),
    sentence,
    make("div", { class: "now" }, make("figure", {}, picture, caption), ...(boxes.length ? [make("div", { class: "boxes" }, ...boxes.map(([box]) => box))] : [])),
    ...(said.modalities.some((modality) => modality.groups.length) ? [orderSwitch(said, place, chooseOrder)] : []),
    lanes,
    ...found(said),
    alternatives(said),
  );
  if (said.words.length) show(firstWord(said));
  return section;
}

function describe(said, number) {
  const parts = said.modalities.map((modality) => {
    const [start, end] = modality.spans[largest(modality.weights[number])];
    const share = weighed(modality) ? ` ${percent(modality.share[number])}` : "";
    return `${label(modality.name)}${share}, most at ${seconds(start)} to ${seconds(end)}`;
  });
  for (const [what, options] of Object.entries(said.choices)) {
    const [name, values] = Object.entries(options).reduce((best, other) => (other[1][number] > best[1][number] ? other : best));
    parts.push(`${what} ${label(name)} ${percent(values[number])}`);
  }
  return [said.words[number], parts.join("; ")].filter(Boolean).join(": ");
}

document.body.classList.toggle("pair", data.captions.length > 1);
document.getElementById("captions").replaceChildren(...data.captions.map(captionCard));
spoken.textContent = "";
document.getElementById("theme").addEventListener("click", () => {
  const dark = getComputedStyle(document.documentElement).getPropertyValue("color-scheme").trim() === "dark"
    || (!document.documentElement.className && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.className = dark ? "light" : "dark";
});
if (parent !== window) {
  const tell = () => parent.postMessage({ hoca: Math.ceil(document.documentElement.getBoundingClientRect().height) }, "*");
  new ResizeObserver(tell).observe(document.body);
}
