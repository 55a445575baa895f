// The lesson: what the server says, what the buttons and keys do, and the pictures that are looked at.
const LONGEST_SIDE = 640; // pixels of a picture that is sent
const lesson = { classes: [], current: "", taught: 0, live: true, trained: false, training: false };
const view = { found: [], shown: false, index: null, frames: 0, at: 0, playing: false, waiting: null, number: 0, times: [], facing: "environment" };
const grabbed = canvasOf(1, 1);
let pending = null; // the picture whose answer is awaited

connect({
  welcome(said) {
    view.frames = said.frames;
    view.waiting = null;
    status("good", said.frames ? "clip" : "camera");
    $("out").textContent = `Written to ${said.out}, on the computer that runs Gyrfalcon.`;
    $("clip").hidden = !said.frames;
    if (said.frames) { $("seek").max = said.frames - 1; lookAgain(); } else openCamera();
  },
  state: learn,
  taught(said) { sent = null; learn(said); toast(said.live ? "Taught." : "Taught. Update the model to use it."); },
  trained(said) { learn(said); say(`Model updated in ${said.train_seconds.toFixed(1)} seconds`); lookAgain(); },
  undone(said) { learn(said); toast("The last picture is forgotten."); lookAgain(); },
  added(said) { learn(said); choose(said.name); },
  saved(said) { learn(said); toast(`Saved: ${said.path}, ${(said.bytes / 1e6).toFixed(1)} MB`); },
  notice(said) { toast(said.message); },
  unseen(said) { if (said.id === view.waiting) { view.waiting = null; setTimeout(lookAgain, 500); } },
  found: showFound,
  error(said) { if (said.about === "look") view.waiting = null; else if (said.about === "observe") bringBack(); },
  lost() { view.waiting = null; },
});

function learn(said) {
  Object.assign(lesson, said);
  if (!lesson.classes.some((known) => known.name === lesson.current)) lesson.current = lesson.classes[0]?.name || "";
  $("live").checked = said.live;
  $("train").disabled = said.training || !(said.taught || said.trained);
  $("train").classList.toggle("primary", said.dirty && !said.live);
  $("save").disabled = !said.trained && !said.taught;
  $("model").className = `pill ${said.training ? "busy" : said.trained ? "good" : ""}`;
  $("model").textContent = said.training ? "training" : said.trained ? (said.dirty ? "out of date" : "ready") : "not trained";
  $("accuracy").textContent = said.accuracy === null ? "–" : `${Math.round(100 * said.accuracy)} %`;
  $("accuracy-words").textContent = said.tested ? `overlap with your last ${said.tested === 1 ? "mark" : `${said.tested} marks`}, before they were taught` : "on new marks, before they are taught";
  $("train-seconds").textContent = said.train_seconds === null ? "–" : `${said.train_seconds.toFixed(said.train_seconds < 10 ? 2 : 1)} s`;
  $("taught").textContent = said.taught === 1 ? "one picture" : `${said.taught || "no"} pictures`;
  showClasses();
  showCommit();
  drawOverlay();
}

function showClasses() {
  $("no-classes").hidden = lesson.classes.length > 0;
  $("classes").replaceChildren(...lesson.classes.map((known, place) => {
    const swatch = element("span", { className: "swatch" });
    const button = element("button", { type: "button" }, swatch, element("span", { className: "name", textContent: known.name }),
      element("span", { className: "count", textContent: known.frames, title: "pictures taught" }));
    if (place < 9) button.append(element("kbd", { textContent: place + 1 }));
    button.style.setProperty("--swatch", colorOf(known.name));
    button.setAttribute("role", "radio");
    button.setAttribute("aria-checked", known.name === lesson.current);
    button.setAttribute("aria-label", `${known.name}, taught in ${known.frames} pictures`);
    button.addEventListener("click", () => choose(known.name));
    return element("li", {}, button);
  }));
}

function choose(name) {
  lesson.current = name;
  showClasses();
  drawOverlay();
}

function showCommit() {
  const count = (verdict) => marking.marks.filter((mark) => mark.verdict === verdict).length;
  const parts = [[undefined, "marked"], ["right", "right"], ["wrong", "wrong"], ["open", "left open"]].map(([verdict, word]) => [count(verdict), word]);
  const words = parts.filter(([number]) => number).map(([number, word]) => `${number} ${word}`).join(", ");
  $("frozen").hidden = $("commit").hidden = !marking.held;
  $("commit-words").textContent = words ? `${words}. Everything else is background.` : "Nothing marked: the whole picture is background.";
  $("undo").disabled = !(marking.held ? marking.history.length : lesson.taught);
}

async function openCamera() {
  if (!navigator.mediaDevices) { emptyStage("Browsers give pictures of a camera to safe addresses only: open this page as http://127.0.0.1 or by HTTPS.", false); return; }
  emptyStage("Waiting for the camera …", false);
  try {
    for (const track of $("video").srcObject?.getTracks() || []) track.stop();
    $("video").srcObject = await navigator.mediaDevices.getUserMedia({ audio: false, video: { facingMode: view.facing, width: { ideal: 1280 }, height: { ideal: 720 } } });
    await $("video").play();
    const cameras = (await navigator.mediaDevices.enumerateDevices()).filter((device) => device.kind === "videoinput");
    $("flip").hidden = cameras.length < 2;
    $("empty").hidden = true;
    requestAnimationFrame(watch);
  } catch (error) {
    const words = { NotAllowedError: "The camera is blocked for this page. Allow it in the address bar, then try again.", NotFoundError: "There is no camera.",
      NotReadableError: "The camera is used by another program." }[error.name];
    emptyStage(words || `The camera cannot be opened: ${error.message}`, true);
  }
}

function emptyStage(words, again) {
  $("empty").hidden = false;
  $("empty-words").textContent = words;
  $("retry").hidden = !again;
}

// The camera: the newest picture is sent when the answer to the one before has come. Until there is a model, it is only shown.
function watch() {
  if (view.frames || !$("video").srcObject) return;
  if (!marking.held && $("video").videoWidth) {
    const scale = Math.min(1, LONGEST_SIDE / Math.max($("video").videoWidth, $("video").videoHeight));
    setSize(Math.round($("video").videoWidth * scale), Math.round($("video").videoHeight * scale));
    if (!lesson.trained) {
      drawPicture($("video"));
      view.shown = true;
      if (view.found.length) showList([]);
    } else if (view.waiting === null && wire.socket) lookAgain();
  }
  requestAnimationFrame(watch);
}

async function lookAgain() {
  if (view.waiting !== null || marking.held) return;
  view.waiting = ++view.number;
  if (view.frames) { if (!send("look", { id: view.waiting, index: view.at })) view.waiting = null; return; }
  if (!lesson.trained || !$("video").videoWidth) { view.waiting = null; return; }
  Object.assign(grabbed, { width: stage.width, height: stage.height });
  grabbed.getContext("2d").drawImage($("video"), 0, 0, stage.width, stage.height);
  pending = copied(grabbed);
  if (!send("look", { id: view.waiting }, [await bytesOf(pending, "image/jpeg")])) view.waiting = null;
}

async function showFound(said, blobs) {
  if (said.id !== view.waiting) return;
  const bitmap = (data, type) => createImageBitmap(new Blob([data], { type }));
  const masks = await Promise.all(said.found.map((_, place) => bitmap(blobs[place], "image/png")));
  const picture = said.picture ? await bitmap(blobs[blobs.length - 1], "image/jpeg") : pending;
  const index = view.at;
  view.waiting = null;
  if (marking.held) return;
  setSize(...said.size);
  drawPicture(picture);
  $("empty").hidden = true;
  Object.assign(view, { shown: true, index: view.frames ? index : null });
  showList(said.found.map((found, place) => ({ ...found, mask: found.empty ? null : copied(masks[place]) })));
  const now = performance.now();
  view.times = [...view.times.filter((time) => now - time < 3000), now];
  const rate = view.times.length > 1 ? (1000 * (view.times.length - 1)) / (now - view.times[0]) : 0;
  $("rate").textContent = rate ? `${rate.toFixed(1)}/s` : "–";
  $("look-seconds").textContent = `${Math.round(1000 * said.seconds)} ms a picture`;
  if (view.frames) showPlace(index);
}

function showPlace(index) {
  $("place").textContent = `${index + 1} / ${view.frames}`;
  if (view.playing && index + 1 < view.frames) { view.at = index + 1; $("seek").value = view.at; lookAgain(); }
  else if (view.playing) play(false);
  else if (view.at !== index) lookAgain();
}

function showList(found) {
  view.found = found;
  $("nothing").hidden = found.length > 0;
  $("nothing").textContent = lesson.trained ? "Nothing in this picture." : "Nothing yet.";
  $("found").replaceChildren(...found.map((thing, place) => {
    const row = element("li", {}, element("span", { className: "swatch" }), element("span", { className: "name", textContent: thing.label }),
      element("span", { className: "score", textContent: thing.score.toFixed(2) }), verdictButton(place, thing, "right"), verdictButton(place, thing, "wrong"));
    row.style.setProperty("--swatch", colorOf(thing.label));
    return row;
  }));
  drawOverlay();
}

function verdictButton(place, thing, verdict) {
  const button = element("button", { type: "button", className: verdict, textContent: verdict === "right" ? "Right" : "Wrong" });
  button.setAttribute("aria-label", `This ${thing.label} is ${verdict}`);
  button.addEventListener("click", () => {
    if (!hold() || !marking.marks[place]?.found) return;
    judge(marking.marks[place], verdict);
    $("teach").focus();
  });
  return button;
}

function say(words) { $("said").textContent = words; }

function askName() {
  $("name").value = "";
  $("name-dialog").showModal();
}

function undo() {
  if (marking.held && marking.history.length) stepBack();
  else if (!marking.held && lesson.taught) send("undo");
}

function setTool(tool) {
  if (marking.stroke) return;
  marking.tool = tool;
  marking.draft = null;
  for (const button of document.querySelectorAll("[data-tool]")) button.setAttribute("aria-pressed", button.dataset.tool === tool);
  $("brush-size").hidden = tool !== "brush" && tool !== "erase";
  drawOverlay();
}

function play(on) {
  view.playing = on && view.frames > 0;
  $("play-icon").setAttribute("href", view.playing ? "#i-pause" : "#i-play");
  $("play").setAttribute("aria-label", view.playing ? "Pause" : "Play");
  if (view.playing) { if (marking.held) release(); if (view.at + 1 >= view.frames) view.at = 0; lookAgain(); }
}

function seek(index) {
  if (marking.held && marking.history.length) { toast("Teach or discard this picture first."); $("seek").value = view.at; return; }
  view.at = Math.max(0, Math.min(view.frames - 1, index));
  $("seek").value = view.at;
  if (marking.held) release(); else lookAgain();
}

function setLive(on) { $("live").checked = on; send("live", { on }); }

const click = (id, act) => $(id).addEventListener("click", act);
for (const button of document.querySelectorAll("[data-tool]")) button.addEventListener("click", () => setTool(button.dataset.tool));
click("undo", undo);
click("teach", teach);
click("discard", release);
click("train", () => send("train"));
click("save", () => send("save"));
click("new-class", askName);
click("help", () => $("help-dialog").showModal());
click("retry", openCamera);
click("flip", () => { view.facing = view.facing === "user" ? "environment" : "user"; openCamera(); });
click("play", () => play(!view.playing));
click("name-cancel", () => $("name-dialog").close());
$("live").addEventListener("change", () => setLive($("live").checked));
$("seek").addEventListener("input", () => seek(Number($("seek").value)));
$("name-dialog").querySelector("form").addEventListener("submit", () => { if ($("name").value.trim()) send("add_class", { name: $("name").value }); });
new ResizeObserver(drawOverlay).observe($("screen"));

const KEYS = {
  b: () => setTool("box"), p: () => setTool("brush"), e: () => setTool("erase"), w: () => setTool("wrong"), n: askName, d: switchLook,
  u: () => send("train"), l: () => setLive(!$("live").checked), s: () => { if (!$("save").disabled) send("save"); }, Enter: teach, Escape: () => { if (marking.held) release(); },
  "?": () => $("help-dialog").showModal(), " ": () => { if (view.frames) play(!view.playing); else if (marking.held) release(); else { hold(); drawOverlay(); } },
  "[": () => { $("size").value = Number($("size").value) - 4; }, "]": () => { $("size").value = Number($("size").value) + 4; },
  ArrowLeft: () => { if (view.frames) seek(view.at - 1); }, ArrowRight: () => { if (view.frames) seek(view.at + 1); },
};
document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.target.matches("input[type=text], input[type=range]")) return;
  if ((event.key === " " || event.key === "Enter") && event.target.matches("button, input")) return;
  const modified = event.ctrlKey || event.metaKey, key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (modified && key === "z") { event.preventDefault(); undo(); return; }
  if (modified && key === "s") { event.preventDefault(); KEYS.s(); return; }
  if (modified || event.altKey) return;
  const digit = Number(key);
  if (digit >= 1 && digit <= lesson.classes.length) choose(lesson.classes[digit - 1].name);
  else if (KEYS[key]) { event.preventDefault(); KEYS[key](); }
});
