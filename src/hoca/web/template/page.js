// A report tells how tall it is, and its frame follows.
window.addEventListener("message", (event) => {
  const height = Number(event.data && event.data.hoca);
  if (!(height > 0 && height < 20000)) return;
  for (const frame of document.querySelectorAll("iframe.report")) {
    if (frame.contentWindow === event.source) frame.style.height = `${height}px`;
  }
});

// A report's frame may neither write to the clipboard nor save a file, so the page does both for it.
const ACTIONS = {
  async copy(button, frame) {
    const note = document.createElement("textarea"); // where the clipboard needs https, selected text can be copied
    note.value = frame.title;
    try {
      await navigator.clipboard.writeText(frame.title);
    } catch {
      document.body.append(note);
      note.select();
      document.execCommand("copy");
      note.remove();
    }
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 1500);
  },
  download(button, frame) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([frame.srcdoc], { type: "text/html" }));
    link.download = button.dataset.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  },
};
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("#result [data-do]");
  if (button) ACTIONS[button.dataset.do](button, document.querySelector("#result iframe.report"));
});

// What is new in the result comes into view where it is below the upload, and says if the player stays empty.
const UNPLAYABLE = "This browser cannot play the file. It was captioned all the same.";
let shown = null;
new MutationObserver(() => {
  const latest = document.querySelector("#result iframe.report, #result .problem");
  if (latest === shown) return;
  shown = latest;
  if (!latest) return;
  noteUnplayable();
  setTimeout(bringIntoView, 300); // when the page has its new height
}).observe(document, { childList: true, subtree: true });

function bringIntoView() {
  const result = document.getElementById("result");
  if (result.getBoundingClientRect().top < window.innerHeight / 3) return;
  result.scrollIntoView({ behavior: "smooth", block: "start" });
}

function noteUnplayable() {
  const actions = document.querySelector("#result .actions");
  const player = document.querySelector("#video video");
  if (!actions || !player?.error || actions.querySelector(".note")) return;
  const note = document.createElement("span");
  note.className = "note";
  note.textContent = UNPLAYABLE;
  actions.append(note);
}
document.addEventListener("error", (event) => {
  if (!event.target.matches?.("#video video")) return;
  event.stopPropagation(); // Gradio would report an error beside our one message
  noteUnplayable();
}, true);

// A file that is too large is refused in words before it is sent.
function refuseLarge(event) {
  if (!event.target.closest?.("#video")) return;
  const limits = document.getElementById("limits");
  limits.dataset.text ??= limits.textContent;
  const files = event.type === "drop" ? event.dataTransfer.files : event.target.files;
  const large = [...(files ?? [])].find((file) => file.size > Number(limits.dataset.bytes));
  limits.classList.toggle("problem", Boolean(large));
  limits.removeAttribute("role");
  limits.textContent = limits.dataset.text;
  if (!large) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  if (event.type === "change") event.target.value = "";
  limits.setAttribute("role", "alert");
  limits.textContent = `${large.name} is too large (${(large.size / 1e6).toPrecision(3)} MB). ${limits.dataset.text}`;
}
for (const kind of ["change", "drop"]) document.addEventListener(kind, refuseLarge, true);
