// What all pages share: finding elements, the wire to the server, notices, and the look.
const $ = (id) => document.getElementById(id);
const CLOSED = {
  1009: "A message was larger than the server accepts.",
  4401: "The token is missing or wrong. Open the address that was printed on the terminal.",
  4409: "The page was opened in another window. Reload to take it back.",
};
const FINAL = [4401, 4409];
const LARGEST_MESSAGE = 4 << 20;

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#${name}`);
  svg.append(use);
  return svg;
}

function toast(words, bad = false) {
  for (const old of $("toasts").children) if (old.textContent === words) old.remove();
  const shown = element("div", { className: bad ? "toast bad" : "toast", textContent: words });
  shown.setAttribute("role", bad ? "alert" : "status");
  $("toasts").append(shown);
  setTimeout(() => shown.remove(), bad ? 8000 : 2500);
}

// The token arrives after the # of the address, which is not sent anywhere. It is kept for reloads of this window only.
function findToken() {
  const given = location.hash.slice(1);
  if (given) {
    try { sessionStorage.setItem("token", given); } catch { return given; }
    history.replaceState(null, "", location.pathname);
  }
  try { return given || sessionStorage.getItem("token") || ""; } catch { return given; }
}

const wire = { socket: null, token: "", hear: {}, tries: 0 };

function connect(hear) {
  wire.hear = hear;
  wire.token = wire.token || findToken();
  status("busy", "connecting");
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/socket`);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => { wire.tries = 0; socket.send(JSON.stringify({ kind: "hello", token: wire.token })); };
  socket.onmessage = (event) => receive(event.data);
  socket.onclose = (event) => {
    if (wire.socket !== socket) return;
    wire.socket = null;
    if (hear.lost) hear.lost();
    const words = CLOSED[event.code];
    status("bad", FINAL.includes(event.code) ? "not connected" : "connection lost");
    if (words) toast(words, true);
    if (!FINAL.includes(event.code)) setTimeout(() => connect(hear), Math.min(8000, 500 * 2 ** wire.tries++));
  };
  wire.socket = socket;
}

function receive(data) {
  let header, blobs = [];
  if (typeof data === "string") header = JSON.parse(data);
  else {
    const length = new DataView(data).getUint32(0, true);
    header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
    let start = 4 + length;
    blobs = header.blobs.map((size) => { const blob = data.slice(start, start + size); start += size; return blob; });
  }
  const heard = wire.hear[header.kind];
  if (header.kind === "error") toast(header.message, true);
  if (heard) heard(header, blobs);
}

function send(kind, fields = {}, blobs = []) {
  if (!wire.socket || wire.socket.readyState !== WebSocket.OPEN) return false;
  if (!blobs.length) { wire.socket.send(JSON.stringify({ kind, ...fields })); return true; }
  const header = new TextEncoder().encode(JSON.stringify({ kind, ...fields, blobs: blobs.map((blob) => blob.byteLength) }));
  const length = new ArrayBuffer(4);
  new DataView(length).setUint32(0, header.byteLength, true);
  const whole = new Blob([length, header, ...blobs]);
  if (whole.size > LARGEST_MESSAGE) { toast(CLOSED[1009], true); return false; }
  wire.socket.send(whole);
  return true;
}

function status(kind, words) {
  $("status").className = `pill ${kind}`;
  $("status").textContent = words;
}

function setLook(look) {
  if (look) document.documentElement.dataset.look = look;
  try { if (look) localStorage.setItem("look", look); } catch { /* the look lasts as long as the page */ }
}

function switchLook() {
  const now = document.documentElement.dataset.look || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  setLook(now === "dark" ? "light" : "dark");
}

try { setLook(localStorage.getItem("look")); } catch { /* no storage, no memory of the look */ }
$("look").addEventListener("click", switchLook);
