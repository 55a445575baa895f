// Marks on a picture that is held: boxes and masks, drawn with a mouse, a pen, fingers or keys.
const marking = { held: false, marks: [], history: [], draft: null, stroke: null, tool: "box", picture: null, index: null };
const SMALLEST_BOX = 6; // pixels of the picture

// Hold the picture that is shown. What was found in it is left open until it is said to be right or wrong.
function hold() {
  if (marking.held || !view.shown) return marking.held;
  const picture = canvasOf(stage.width, stage.height);
  picture.getContext("2d").drawImage($("picture"), 0, 0);
  Object.assign(marking, { held: true, picture, index: view.index, history: [], draft: null });
  marking.marks = view.found.map((found) => ({ ...found, found: true, verdict: "open", mask: copied(found.mask) }));
  showCommit();
  return true;
}

function release() {
  Object.assign(marking, { held: false, marks: [], history: [], draft: null, stroke: null, picture: null });
  showCommit();
  drawOverlay();
  lookAgain();
}

function copied(mask) {
  if (!mask) return null;
  const copy = canvasOf(mask.width, mask.height);
  copy.getContext("2d").drawImage(mask, 0, 0);
  return copy;
}

function remember() {
  marking.history.push(marking.marks.map((mark) => ({ ...mark, mask: copied(mark.mask) })));
  if (marking.history.length > 30) marking.history.shift();
}

function stepBack() {
  marking.marks = marking.history.pop();
  showCommit();
  drawOverlay();
}

function placeOf(event) {
  const shown = $("overlay").getBoundingClientRect();
  const clamp = (value, most) => Math.max(0, Math.min(most, value));
  return [clamp(((event.clientX - shown.left) / shown.width) * stage.width, stage.width),
    clamp(((event.clientY - shown.top) / shown.height) * stage.height, stage.height)];
}

const inside = ([x, y], [left, top, right, bottom], margin = 0) =>
  x >= left - margin && x <= right + margin && y >= top - margin && y <= bottom + margin;

function overlapOf(one, other) {
  const width = Math.min(one[2], other[2]) - Math.max(one[0], other[0]), height = Math.min(one[3], other[3]) - Math.max(one[1], other[1]);
  if (width <= 0 || height <= 0) return 0;
  const area = (box) => (box[2] - box[0]) * (box[3] - box[1]);
  return (width * height) / (area(one) + area(other) - width * height);
}

function addBox(box) {
  if (box[2] - box[0] < SMALLEST_BOX || box[3] - box[1] < SMALLEST_BOX) return;
  remember();
  marking.marks = marking.marks.filter((mark) => !(mark.found && overlapOf(mark.box, box) > 0.5));
  marking.marks.push({ label: lesson.current, box });
  say(`Box of ${lesson.current} marked`);
  showCommit();
}

function toggleWrong(point) {
  const hit = marking.marks.filter((mark) => mark.box && inside(point, mark.box)).sort((a, b) => areaOf(a.box) - areaOf(b.box))[0];
  if (hit) judge(hit, hit.verdict === "wrong" ? "open" : "wrong");
}

// What was found is right, wrong, or left open; what was drawn and is wrong goes.
function judge(mark, verdict) {
  remember();
  const place = marking.marks.indexOf(mark);
  if (mark.found) marking.marks[place] = { ...mark, verdict };
  else marking.marks.splice(place, 1);
  showCommit();
  drawOverlay();
}

const areaOf = (box) => (box[2] - box[0]) * (box[3] - box[1]);

// A mask as large as the picture, so that a brush can go anywhere.
function widen(mark) {
  const whole = canvasOf(stage.width, stage.height), [left, top] = mark.corner || [0, 0];
  if (mark.mask) whole.getContext("2d").drawImage(mark.mask, left, top);
  Object.assign(mark, { mask: whole, corner: [0, 0], found: false, verdict: undefined, score: undefined });
}

function strokeTargets(point) {
  const radius = Number($("size").value) / 2;
  const near = marking.marks.filter((mark) => mark.mask && mark.verdict !== "wrong" && inside(point, mark.box, radius));
  if (marking.tool === "erase") return near;
  const mine = near.filter((mark) => mark.label === lesson.current).slice(-1);
  if (mine.length) return mine;
  const fresh = { label: lesson.current, box: [...point, ...point], mask: null };
  marking.marks.push(fresh);
  return [fresh];
}

function beginStroke(point) {
  remember();
  if (marking.tool === "erase") {
    const boxes = marking.marks.filter((mark) => !mark.mask && inside(point, mark.box));
    marking.marks = marking.marks.filter((mark) => !boxes.includes(mark));
  }
  const targets = strokeTargets(point);
  targets.forEach(widen);
  marking.stroke = { targets, last: point };
  goOn(point);
}

function goOn(point) {
  for (const { mask } of marking.stroke.targets) {
    const pen = mask.getContext("2d");
    Object.assign(pen, { lineCap: "round", lineJoin: "round", lineWidth: Number($("size").value), strokeStyle: "#fff" });
    pen.globalCompositeOperation = marking.tool === "erase" ? "destination-out" : "source-over";
    pen.beginPath();
    pen.moveTo(...marking.stroke.last);
    pen.lineTo(point[0] + 0.01, point[1]);
    pen.stroke();
  }
  marking.stroke.last = point;
}

function endStroke() {
  for (const mark of marking.stroke.targets) mark.box = maskBox(mark);
  marking.marks = marking.marks.filter((mark) => !mark.mask || areaOf(mark.box) > 0);
  marking.stroke = null;
  showCommit();
}

function boxFrom([x0, y0], [x1, y1]) {
  return [Math.min(x0, x1), Math.min(y0, y1), Math.max(x0, x1), Math.max(y0, y1)];
}

let start = null;
$("overlay").addEventListener("pointerdown", (event) => {
  if (event.button !== 0 || start) return;
  if (marking.tool !== "wrong" && marking.tool !== "erase" && !lesson.current) { askName(); return; }
  if (!hold()) return;
  event.preventDefault();
  $("overlay").focus({ preventScroll: true });
  $("overlay").setPointerCapture(event.pointerId);
  start = placeOf(event);
  if (marking.tool === "wrong") { toggleWrong(start); start = null; }
  else if (marking.tool === "box") marking.draft = boxFrom(start, start);
  else beginStroke(start);
  drawOverlay();
});
$("overlay").addEventListener("pointermove", (event) => {
  if (!start) return;
  if (marking.tool === "box") marking.draft = boxFrom(start, placeOf(event));
  else if (marking.stroke) for (const part of event.getCoalescedEvents?.() || [event]) goOn(placeOf(part));
  drawOverlay();
});
function lift(event) {
  if (!start) return;
  if (marking.tool === "box" && event.type === "pointerup") addBox(boxFrom(start, placeOf(event)));
  else if (marking.stroke) endStroke();
  marking.draft = start = null;
  if (marking.held && !marking.history.length) release();
  drawOverlay();
}
$("overlay").addEventListener("pointerup", lift);
$("overlay").addEventListener("pointercancel", lift);

// Boxes with keys alone: the arrow keys move one, Shift and the arrow keys change its size, Enter marks it.
$("overlay").addEventListener("keydown", (event) => {
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (step && marking.tool === "box" && lesson.current && (marking.held || !view.frames) && hold()) {
    const far = stage.width / 40, draft = marking.draft || [0.35, 0.35, 0.65, 0.65].map((part, i) => part * (i % 2 ? stage.height : stage.width));
    const [dx, dy] = step.map((part) => part * far);
    marking.draft = event.shiftKey
      ? [draft[0], draft[1], Math.max(draft[0] + far, draft[2] + dx), Math.max(draft[1] + far, draft[3] + dy)]
      : [draft[0] + dx, draft[1] + dy, draft[2] + dx, draft[3] + dy];
  } else if (event.key === "Enter" && marking.draft) {
    addBox(marking.draft);
    marking.draft = null;
  } else return;
  event.preventDefault();
  event.stopPropagation();
  drawOverlay();
});

let sent = null; // marks that are on their way, which come back if they are refused

async function teach() {
  if (!marking.held) return;
  const blobs = [], marks = [];
  if (marking.index === null) blobs.push(await bytesOf(marking.picture, "image/jpeg"));
  for (const mark of marking.marks.filter((mark) => mark.verdict !== "wrong")) {
    const judged = { label: mark.label, kept: mark.verdict === "right", open: mark.verdict === "open" };
    if (judged.open || !mark.mask) { marks.push({ ...judged, box: mark.box }); continue; }
    const whole = { ...mark };
    widen(whole);
    marks.push({ ...judged, mask: blobs.length });
    blobs.push(await bytesOf(whole.mask, "image/png"));
  }
  const index = marking.index === null ? {} : { index: marking.index };
  if (!send("observe", { marks, ...index }, blobs)) { toast("The picture could not be sent. Your marks are kept.", true); return; }
  sent = { ...marking };
  release();
}

function bringBack() {
  if (!sent || marking.held) return;
  setSize(sent.picture.width, sent.picture.height);
  drawPicture(sent.picture);
  Object.assign(marking, sent, { tool: marking.tool, draft: null, stroke: null });
  sent = null;
  showCommit();
  drawOverlay();
}

async function bytesOf(canvas, type) {
  const blob = await new Promise((done) => canvas.toBlob(done, type, 0.9));
  return blob.arrayBuffer();
}
