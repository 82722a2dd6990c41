"use strict";
// Everything shown is made of text nodes and attributes: names and words are never read as markup.
const page = `<!doctype html>\n${document.documentElement.outerHTML}\n`; // as it was written, before anything is drawn
const told = JSON.parse(document.getElementById("data").textContent);
const segments = told.segments || []; // of a film; a clip has none
let data = segments.length ? segments[0].content : told; // the clip or segment that is shown
let offset = 0; // when it begins, in seconds of the film
const spoken = document.getElementById("spoken");
const ORDERS = ["", "unary", "binary", "ternary"];
const MEANING = "The model's own estimate: how likely this sentence is to fit the clip better than half of what people would write about it.";
const HUES = { image: 0, motion: 1, audio: 2, change: 3 }; // a modality has its colour whatever the clip lacks
const LABELS = new Map(Object.entries(told.labels));
const hue = (name, place) => `m${name in HUES ? HUES[name] : (place + 4) % 5}`;
const label = (modality) => LABELS.get(modality) || modality;
const percent = (x) => `${Math.round(100 * x)} %`;
const width = (x) => `${(100 * x).toFixed(1)}%`;
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const seconds = (x) => (segments.length || data.duration >= 60 ? clock(offset + x, true) : `${x.toFixed(1)} s`);

// 34:05 or 1:02:03, with tenths where they are asked for and not 0.
function clock(time, exact = false) {
  const tenths = exact ? Math.round(10 * time) : 10 * Math.floor(time + 1e-6);
  const whole = Math.floor(tenths / 10);
  const parts = whole < 3600 ? [Math.floor(whole / 60)] : [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const [first, ...rest] = [...parts, whole % 60];
  return [first, ...rest.map((part) => String(part).padStart(2, "0"))].join(":") + (tenths % 10 ? `.${tenths % 10}` : "");
}

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

// Weights are drawn on one scale for all words of a lane: from nothing to the greatest of them, but at least to three
// times the even share, which is marked. So attention that is spread evenly looks even.
function scaleOf(rows) {
  const even = 1 / rows[0].length;
  return { even, top: Math.max(3 * even, ...rows.flat()) };
}

const lights = (weights, scale) => weights.map((weight) => Math.min(1, weight / scale.top).toFixed(3));
const nearlyEven = (weights) => weights.length > 1 && weights.every((weight) => Math.abs(weight * weights.length - 1) <= 0.5);
const number = (x) => x.toFixed(3);

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
function filmLane(track, spans, scale) {
  track.classList.add("film");
  if (data.thumbnails.length > 40) track.classList.add("many");
  const steps = stepsOfPictures(spans);
  const cells = data.thumbnails.map((picture) => {
    const cell = make("div", { class: "cell", title: seconds(picture.time) }, make("img", { src: picture.source, alt: "" }));
    track.append(cell);
    return cell;
  });
  return (weights) => {
    const light = lights(weights, scale);
    const top = nearlyEven(weights) ? -1 : largest(weights);
    cells.forEach((cell, picture) => {
      const step = steps[picture].reduce((best, other) => (weights[other] > weights[best] ? other : best));
      cell.style.setProperty("--w", light[step]);
      cell.classList.toggle("top", step === top);
      cell.title = `${seconds(data.thumbnails[picture].time)}, α ${number(weights[step])}`;
    });
  };
}

// A bar for each step, as high as its weight.
function stepBars(track, spans, scale) {
  const bars = apart(spans).map(([start, end]) => {
    const bar = make("i");
    bar.style.left = width(start / data.duration);
    bar.style.width = width((end - start) / data.duration);
    track.append(bar);
    return bar;
  });
  return (weights) => {
    const light = lights(weights, scale);
    bars.forEach((bar, step) => {
      bar.style.setProperty("--w", light[step]);
      bar.title = `${seconds(spans[step][0])} to ${seconds(spans[step][1])}, α ${number(weights[step])}`;
    });
  };
}

function windowLane(track, spans, scale) {
  track.classList.add("windows");
  return stepBars(track, spans, scale);
}

let gradients = 0;
function soundLane(track, spans, scale) {
  track.classList.add("sound");
  const raise = stepBars(track, spans, scale);
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
    raise(weights);
    const light = lights(weights, scale);
    stops.forEach((pair, step) => pair.forEach((stop) => stop.setAttribute("stop-opacity", light[step])));
  };
}

function lane(parent, heading, draw, spans, scale, options = "") {
  const track = make("div", { class: "track" });
  track.style.setProperty("--even", scale.even / scale.top);
  parent.append(make("div", { class: `lane ${options}` }, heading, track));
  return draw(track, spans, scale);
}

// Whether the model says how much a modality counts for each word.
const weighed = (modality) => modality.share.length > 0;

function words(said, show) {
  const sentence = make("h1", { class: "sentence" });
  const buttons = said.words.map((word, place) => {
    const mix = make("span", { class: "mix", "aria-hidden": "true" });
    said.modalities.filter(weighed).forEach((modality, m) => {
      const part = make("i", { class: hue(modality.name, m) });
      part.style.flexGrow = modality.share[place];
      mix.append(part);
    });
    const button = make("button", { type: "button", class: "word", "aria-pressed": "false" }, word, mix);
    for (const event of ["mouseenter", "focus", "click"]) button.addEventListener(event, () => show(place));
    button.addEventListener("keydown", (event) => {
      const to = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: buttons.length - 1 }[event.key];
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

// A box with a bar for each of the rows [name, its colour, value at each word].
function wordBars(said, heading, rowsOf) {
  const title = make("em");
  const box = make("div", { class: "shares" }, make("h2", {}, heading, title));
  const rows = rowsOf.map(([name, colour, values]) => {
    const bar = make("i");
    const value = make("span", { class: "value" });
    box.append(make("span", { class: `name ${colour}` }, name), make("div", { class: `bar ${colour}` }, bar), value);
    return (word) => {
      bar.style.width = width(values[word]);
      value.textContent = percent(values[word]);
    };
  });
  const show = (word) => {
    title.textContent = said.words[word];
    rows.forEach((row) => row(word));
  };
  return [box, show];
}

// What counted for a word, and what it chose among: boxes of bars, those that the model can tell of.
function shareBoxes(said) {
  const boxes = [];
  const counted = said.modalities.filter(weighed).map((modality, m) => [label(modality.name), hue(modality.name, m), modality.share]);
  if (counted.length) boxes.push(wordBars(said, "What counted for ", counted));
  for (const [what, options] of Object.entries(said.choices)) {
    const rows = Object.entries(options).map(([name, values], option) => [label(name), hue(name, option), values]);
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

const timed = (axis) => axis.kind === "time";
const names = (axis) => (timed(axis) ? axis.spans.map(([start, end]) => `${seconds(start)} to ${seconds(end)}`) : axis.labels);

// A matrix as a grid of cells, the darker the larger their number, in another colour below zero. The row and the column
// of the word that is shown stand out.
function matrixBox(name, { rows, columns, values, about }) {
  const flat = values.flat();
  const [least, most] = [Math.min(0, ...flat), Math.max(0, ...flat)];
  const scale = Math.max(-least, most) || 1;
  const [rowNames, columnNames] = [names(rows), names(columns)];
  const row = (heading, cells, kind = "") => make("div", { class: `cells ${kind}` }, make("span", {}, heading), make("div", {}, ...cells));
  const head = timed(columns)
    ? row("", [make("div", { class: "axis" }, ...[columns.spans[0][0], columns.spans.at(-1)[1]].map((time) => make("span", {}, seconds(time))))])
    : row("", columnNames.map((each) => make("span", { class: "name" }, each)), "head");
  const lines = values.map((numbers, r) => row(rowNames[r], numbers.map((value, c) => {
    const cell = make("i", { class: value < 0 ? "below" : "", title: `${rowNames[r]}, ${columnNames[c]}: ${number(value)}` });
    cell.style.setProperty("--w", (Math.abs(value) / scale).toFixed(3));
    return cell;
  })));
  const colour = timed(columns) ? hue(columns.modality, 0) : "m4";
  const drawn = make("div", { role: "img", "aria-label": `${name}: ${about}, ${rowNames.length} by ${columnNames.length}` }, head, ...lines);
  const range = make("p", { class: "range" }, `${about}; ${number(least)} to ${number(most)}`);
  const box = make("div", { class: `matrix ${colour}` }, make("h2", {}, capital(name)), range, drawn);
  const show = (word) => {
    if (rows.kind === "words") lines.forEach((line, r) => line.classList.toggle("current", r === word));
    if (columns.kind !== "words") return;
    [head, ...lines].forEach((line) => [...line.lastChild.children].forEach((cell, c) => cell.classList.toggle("current", c === word)));
  };
  return [box, show];
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
    if (image < 0 && data.thumbnails.length) lane(box, make("div"), filmLane, data.thumbnails.map(({ time }) => [time, time]), { even: 0, top: 1 })(data.thumbnails.map(() => 1));
    said.modalities.forEach((modality, m) => {
      const colour = hue(modality.name, m);
      const groups = modality.groups.filter((group) => group.members.length === order);
      const rows = order === 0 ? modality.weights : groups.length ? mean(groups.map((group) => group.weights)) : null;
      const range = make("span", { class: "range" });
      const heading = make("div", {}, make("span", { class: "name" }, label(modality.name)), range);
      if (!rows) {
        const missing = make("div", { class: "missing" }, `no ${ORDERS[order] || "such"} attention`);
        box.append(make("div", { class: `lane ${colour}` }, heading, missing));
        return;
      }
      const scale = scaleOf(rows);
      const heard = modality.name === "audio" && data.envelope.length;
      const light = lane(box, heading, m === image && data.thumbnails.length ? filmLane : heard ? soundLane : windowLane, modality.spans, scale, colour);
      drawn.push((word) => {
        const weights = rows[word];
        light(weights);
        if (m === image && data.thumbnails.length) look(weights, modality.spans);
        range.replaceChildren(`α ${number(Math.min(...weights))} to ${number(Math.max(...weights))}, even ${number(scale.even)}`);
        if (nearlyEven(weights)) range.append(" ", make("b", { class: "even" }, "nearly even"));
      });
      if (order === 0) return;
      for (const group of groups) {
        const others = group.members.filter((member) => member !== modality.name);
        const name = others.length ? `with ${others.map(label).join(" and ")} ` : "alone ";
        const theta = group.theta === null ? [] : ["θ ", make("b", {}, group.theta.toFixed(3))];
        const lit = lane(box, make("div", { class: "group" }, name, ...theta), windowLane, modality.spans, scaleOf(group.weights), `sub ${colour}`);
        drawn.push((word) => lit(group.weights[word]));
      }
    });
    for (const [name, why] of Object.entries(said.absent)) {
      box.append(make("div", { class: "lane" }, make("span", { class: "name" }, label(name)), make("div", { class: "missing" }, why)));
    }
    const ticks = [0, 1, 2, 3, 4].map((quarter) => make("span", {}, seconds((quarter * data.duration) / 4)));
    box.append(make("div", { class: "lane", "aria-hidden": "true" }, make("span"), make("div", { class: "axis" }, ...ticks)));
  }

  const show = (word) => {
    current = word;
    drawn.forEach((light) => light(word));
  };
  const choose = (chosen) => {
    order = chosen;
    draw();
    show(current);
  };
  draw();
  return [show, choose];
}

const signed = (x) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(2)}`;

// Sentences, each with its score and what else stands beside it, as rows [text, score, ...]; bars are the scores.
function ranked(rows) {
  const scores = rows.map(([, score]) => score);
  const least = Math.min(...scores);
  const spread = Math.max(...scores) - least;
  const list = make("ol");
  for (const [text, ...numbers] of rows) {
    const bar = make("i");
    bar.style.width = width(spread ? 0.1 + (0.9 * (numbers[0] - least)) / spread : 1);
    const values = numbers.map((x) => make("span", { class: "value" }, signed(x)));
    list.append(make("li", {}, make("div", { class: "bar", "aria-hidden": "true" }, bar), ...values, make("span", {}, text)));
  }
  return list;
}

// The sentences of the beam by the score that decided their order, whose parts stand beside it in the same notation.
function alternatives(said) {
  const sentences = [[said.text, said.logprob], ...said.alternatives];
  const scores = sentences.map(([, logprob], place) => said.scores[place] || [logprob, logprob, 0]);
  const detects = scores.some(([, , detected]) => detected !== 0);
  const list = ranked(sentences.map(([text], place) => [text, ...(detects ? scores[place] : scores[place].slice(0, 1))]));
  const names = detects ? ["score", "= log p", "+ detected"] : ["score"];
  const head = make("div", { class: "head", "aria-hidden": "true" }, make("span"), ...names.map((name) => make("span", { class: "value" }, name)));
  const title = detects
    ? "Sentences that it weighed, by log-probability for their length and the words detected in the video"
    : "Sentences that it weighed, by log-probability";
  return make("div", { class: detects ? "beam scored parts" : "beam scored" }, make("h2", {}, title), head, list);
}

// What a model says of each of its views of the video; a view may be one choice of its moments.
function views(said) {
  if (!said.views.length) return [];
  const title = "What it says of each view of the video, by log-probability of a word";
  return [make("div", { class: "beam scored views" }, make("h2", {}, title), ranked(said.views.map(([view, text, score]) => [`view ${view}: ${text}`, score])))];
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
    const most = nearlyEven(weights) ? "It looked nearly evenly at all frames; most at" : "The frame that it looked at most, at";
    picture.alt = caption.textContent = `${most} ${seconds(seen.time)}`;
  };
  const lanes = make("div", { class: "timeline" });
  const boxes = shareBoxes(said);
  const matrices = Object.entries(said.matrices).map(([name, matrix]) => matrixBox(name, matrix));
  const [showLanes, chooseOrder] = timeline(said, lanes, look);
  const show = (word) => {
    buttons.forEach((button, other) => button.setAttribute("aria-pressed", other === word));
    [...boxes, ...matrices].forEach(([, showBox]) => showBox(word));
    showLanes(word);
    spoken.textContent = describe(said, word);
  };
  const [sentence, buttons] = words(said, show);
  const section = make("section", { class: "caption", "aria-label": `What ${said.model} said` });
  section.append(
    make("p", { class: "model" }, make("strong", {}, said.model), ` · ${said.kind} · p = ${probability(said.logprob)}${segments.length ? ` · ${seconds(0)} to ${seconds(data.duration)}` : ""}`),
    sentence,
    ...(alone ? [action("Copy caption", (button) => copy(said.text, button))] : []),
    make("div", { class: "now" }, ...(data.thumbnails.length ? [make("figure", {}, picture, caption)] : []), ...(boxes.length ? [make("div", { class: "boxes" }, ...boxes.map(([box]) => box))] : [])),
    ...(said.modalities.some((modality) => modality.groups.length) ? [orderSwitch(said, place, chooseOrder)] : []),
    lanes,
    ...found(said),
    ...matrices.map(([box]) => box),
    ...views(said),
    alternatives(said),
  );
  if (said.words.length) show(firstWord(said));
  return section;
}

function describe(said, word) {
  const parts = said.modalities.map((modality) => {
    const weights = modality.weights[word];
    const [start, end] = modality.spans[largest(weights)];
    const share = weighed(modality) ? ` ${percent(modality.share[word])}` : "";
    return `${label(modality.name)}${share}, ${nearlyEven(weights) ? "nearly even, " : ""}most at ${seconds(start)} to ${seconds(end)}`;
  });
  for (const [what, options] of Object.entries(said.choices)) {
    const [name, values] = Object.entries(options).reduce((best, other) => (other[1][word] > best[1][word] ? other : best));
    parts.push(`${what} ${label(name)} ${percent(values[word])}`);
  }
  for (const [name, { rows, columns, values, sums }] of Object.entries(said.matrices)) {
    if (sums === "rows" && rows.kind === "words") parts.push(`${name}, most ${names(columns)[largest(values[word])]}`);
  }
  return [said.words[word], parts.join("; ")].filter(Boolean).join(": ");
}

// A page that shows the report in a frame of its own origin gives it neither clipboard nor files, and has its own buttons.
const alone = parent === window || self.origin !== "null";

function action(name, run) {
  const button = make("button", { type: "button", class: "action" }, name);
  button.addEventListener("click", () => run(button));
  return button;
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = make("textarea", { class: "unseen" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  const name = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = name; }, 1500);
}

function download(name, type, text) {
  const link = make("a", { download: name, href: URL.createObjectURL(new Blob([text], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

if (alone) {
  const numbers = (clip) => ({ ...clip, thumbnails: clip.thumbnails.map(({ time, middle }) => ({ time, middle })) });
  const all = segments.length ? { ...told, segments: segments.map((part) => ({ ...part, content: numbers(part.content) })) } : numbers(told);
  document.getElementById("theme").before(
    action("Download report", () => download(`${told.name}-report.html`, "text/html", page)),
    action("Download data", () => download(`${told.name}-report.json`, "application/json", JSON.stringify(all, null, 1))),
  );
}

// A film's segments to choose from: a strip over time to click on, and their sentences as a list for all.
function filmNavigation(choose) {
  const [first, last] = [segments[0].start, segments.at(-1).end];
  const strip = make("div", { class: "strip", "aria-hidden": "true" });
  const list = make("ol", { class: "transcript", "aria-label": "Segments" });
  const entries = segments.map((segment, number) => {
    const times = `${clock(segment.start)}–${clock(segment.end)}`;
    const pictures = segment.content.thumbnails;
    const picture = pictures.length ? pictures[Math.floor(pictures.length / 2)].source : null;
    const part = make("i", { title: `${times} ${segment.text}` });
    part.style.left = width((segment.start - first) / (last - first));
    part.style.width = width((segment.end - segment.start) / (last - first));
    if (picture) part.append(make("img", { src: picture, alt: "", loading: "lazy" }));
    part.addEventListener("click", () => select(number));
    strip.append(part);
    const doubt = segment.content.unsure ? [" ", make("span", { class: "sure unsure", title: MEANING }, segment.content.sure)] : [];
    const button = make("button", { type: "button", tabindex: "-1" }, make("time", {}, times), make("span", {}, segment.text, ...doubt));
    button.addEventListener("click", () => select(number));
    button.addEventListener("keydown", (event) => {
      const to = { ArrowDown: number + 1, ArrowRight: number + 1, ArrowUp: number - 1, ArrowLeft: number - 1, Home: 0, End: segments.length - 1 }[event.key];
      if (to === undefined || !segments[to]) return;
      event.preventDefault();
      select(to);
      entries[to].button.focus({ preventScroll: true });
    });
    list.append(make("li", {}, button));
    return { part, button };
  });
  function select(number) {
    entries.forEach(({ part, button }, other) => {
      part.classList.toggle("chosen", other === number);
      button.setAttribute("tabindex", other === number ? "0" : "-1");
      if (other === number) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    });
    const { button } = entries[number];
    const above = button.offsetTop; // within the list
    if (above < list.scrollTop) list.scrollTop = above;
    if (above + button.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = above + button.offsetHeight - list.clientHeight;
    choose(segments[number]);
  }
  const ticks = [0, 1, 2, 3, 4].map((quarter) => make("span", {}, clock(first + (quarter * (last - first)) / 4)));
  const box = make("nav", { class: "segments", "aria-label": "Timeline" }, strip, make("div", { class: "axis", "aria-hidden": "true" }, ...ticks), list);
  return [box, select];
}

function showCards() {
  document.body.classList.toggle("pair", data.captions.length > 1);
  document.getElementById("captions").replaceChildren(...data.captions.map(captionCard));
}

if (segments.length) {
  const [navigation, select] = filmNavigation((segment) => {
    data = segment.content;
    [offset] = segment.watched;
    showCards();
  });
  document.querySelector("header").after(navigation);
  select(0);
} else {
  showCards();
}
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
