// The viewer: what the server says, and what mouse, fingers, keys and controls do.
const state = { orbit: null, times: null, appearances: 0, number: 0, answered: 0, moving: false, turning: false, playing: false, size: [1, 1], settle: 0 };
const canvas = $("picture");

connect({
  welcome(said) {
    const kept = state.orbit;
    state.orbit = kept || new Orbit(said.pose, said.center, said.up);
    Object.assign(state, { times: said.times, appearances: said.appearances, size: said.size, answered: state.number });
    Object.assign(canvas, { width: said.size[1], height: said.size[0] });
    $("screen").style.setProperty("--ratio", said.size[1] / said.size[0]);
    $("time-part").hidden = !said.times;
    if (said.times) { $("time").min = said.times[0]; $("time").max = said.times[1]; $("time").value = kept ? $("time").value : said.times[0]; }
    $("appearance-part").hidden = !said.appearances;
    const names = ["Mean", ...Array.from({ length: said.appearances }, (_, i) => `Picture ${i + 1}`)];
    $("appearance").replaceChildren(...names.map((name, i) => element("option", { value: i - 1, textContent: name })));
    status("good", "ready");
    ask(false);
  },
  async picture(said, blobs) {
    const place = ++state.arrived;
    const image = await createImageBitmap(new Blob([blobs[0]], { type: "image/jpeg" }));
    if (place < state.shown) return;  // pictures are decoded side by side: one that came later is there already
    state.shown = place;
    const pen = canvas.getContext("2d");
    Object.assign(pen, { imageSmoothingEnabled: true, imageSmoothingQuality: "high" });
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    state.answered = said.id;
    canvas.dataset.finished = said.last && said.id === state.number ? "yes" : "no";
    canvas.dataset.side = Math.max(...said.shape);
    $("note").textContent = `${said.shape[1]} × ${said.shape[0]}, ${said.seconds < 1 ? `${Math.round(1000 * said.seconds)} ms` : `${said.seconds.toFixed(1)} s`}`;
    status(said.last ? "good" : "busy", said.last ? "ready" : "rendering");
  },
});
Object.assign(state, { arrived: 0, shown: 0 });

function ask(moving = true) {
  if (!state.orbit) return;
  const fields = { id: ++state.number, pose: state.orbit.pose(), show: $("show").value, moving };
  if (state.times) fields.time = Number($("time").value);
  if (state.appearances && Number($("appearance").value) >= 0) fields.appearance = Number($("appearance").value);
  canvas.dataset.finished = "no";
  if (state.times) $("time-words").textContent = Number($("time").value).toFixed(2);
  send("view", fields);
}

// While something moves, coarse pictures; a moment after it has stopped, finer ones.
let settling = 0;
function changed() {
  ask(true);
  clearTimeout(settling);
  settling = setTimeout(() => ask(false), 140);
}

// Fingers and the mouse: where they are, and where they were when the camera last followed them, which is once a frame.
const pointers = new Map();
let followed = new Map(), following = false, sideways = false;
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  canvas.focus({ preventScroll: true });
  follow();
  pointers.set(event.pointerId, [event.clientX, event.clientY]);
  followed = new Map(pointers);
  setTurning(false);
});
canvas.addEventListener("pointermove", (event) => {
  if (!pointers.has(event.pointerId) || !state.orbit) return;
  pointers.set(event.pointerId, [event.clientX, event.clientY]);
  sideways = event.shiftKey || event.buttons === 4;
  if (!following) requestAnimationFrame(follow);
  following = true;
});
for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, (event) => {
  follow();
  pointers.delete(event.pointerId);
  followed = new Map(pointers);
});

function follow() {
  if (!following) return;
  following = false;
  const now = [...pointers.values()], then = [...followed.values()], size = canvas.getBoundingClientRect();
  if (now.length !== then.length || !now.length) return;
  followed = new Map(pointers);
  const middle = (points, axis) => points.reduce((sum, point) => sum + point[axis], 0) / points.length;
  const across = (middle(now, 0) - middle(then, 0)) / size.width, down = (middle(now, 1) - middle(then, 1)) / size.height;
  if (now.length === 1 && !sideways) state.orbit.turn(across * 5, down * 4);
  else state.orbit.pan(across, down);
  const spread = ([a, b]) => Math.max(1, Math.hypot(a[0] - b[0], a[1] - b[1]));
  if (now.length === 2) state.orbit.zoom(spread(then) / spread(now));
  changed();
}

canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY)) / 600));
}, { passive: false });
canvas.addEventListener("dblclick", home);

function zoom(factor) { if (state.orbit) { state.orbit.zoom(factor); changed(); } }
function turn(across, down) { if (state.orbit) { state.orbit.turn(across, down); changed(); } }
function home() { if (state.orbit) { setTurning(false); state.orbit.reset(); changed(); } }

function setTurning(on) {
  state.turning = on;
  $("turn").setAttribute("aria-pressed", on);
  if (on) step();
}

function setPlaying(on) {
  state.playing = on && Boolean(state.times);
  $("play-icon").setAttribute("href", state.playing ? "#i-pause" : "#i-play");
  $("play").setAttribute("aria-label", state.playing ? "Pause" : "Play");
  if (state.playing) step();
}

// One step of what moves by itself, when the picture of the step before has come.
let last = 0, stepping = false;
function step() {
  if (stepping) return;
  stepping = true;
  requestAnimationFrame(function next(now) {
    if (!state.turning && !state.playing) { stepping = false; last = 0; return; }
    if (state.answered >= state.number || now - last > 2000) {
      const passed = last ? Math.min(0.5, (now - last) / 1000) : 0;
      last = now;
      if (state.turning) state.orbit.turn(-0.5 * passed, 0);
      if (state.playing) {
        const [low, high] = state.times, length = high - low;
        $("time").value = low + ((Number($("time").value) - low + (length * passed) / 4) % Math.max(1e-9, length));
      }
      changed();
    }
    requestAnimationFrame(next);
  });
}

function moveTime(steps) {
  if (!state.times) return;
  const [low, high] = state.times;
  $("time").value = Math.max(low, Math.min(high, Number($("time").value) + (steps * (high - low)) / 40));
  changed();
}

function nextOption(id) {
  $(id).selectedIndex = ($(id).selectedIndex + 1) % $(id).length;
  $("said").textContent = $(id).selectedOptions[0].textContent;
  changed();
}

function savePicture() {
  canvas.toBlob((blob) => {
    const link = element("a", { href: URL.createObjectURL(blob), download: "view.png" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}

for (const [id, act] of Object.entries({ turn: () => setTurning(!state.turning), home, save: savePicture, play: () => setPlaying(!state.playing),
  help: () => $("help-dialog").showModal() })) $(id).addEventListener("click", act);
for (const id of ["time", "appearance", "show"]) $(id).addEventListener("input", changed);

const KEYS = {
  ArrowLeft: () => turn(-0.1, 0), ArrowRight: () => turn(0.1, 0), ArrowUp: () => turn(0, 0.08), ArrowDown: () => turn(0, -0.08),
  "+": () => zoom(0.88), "=": () => zoom(0.88), "-": () => zoom(1.14), ",": () => moveTime(-1), ".": () => moveTime(1), " ": () => setPlaying(!state.playing),
  a: () => { if (state.appearances) nextOption("appearance"); }, v: () => nextOption("show"), t: () => setTurning(!state.turning), r: home, s: savePicture, d: switchLook,
  "?": () => $("help-dialog").showModal(),
};
document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("select, input") && !["+", "-", "="].includes(event.key)) return;
  if ((event.key === " " || event.key === "Enter") && event.target.matches("button")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (KEYS[key]) { event.preventDefault(); KEYS[key](); }
});
