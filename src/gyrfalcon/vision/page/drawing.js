// Drawing of the picture, of what was found, and of marks. Colors are told apart with any kind of color vision.
const PALETTE = ["#ff9f1c", "#2ec4f1", "#7bd88f", "#f25f8e", "#b69cff", "#ffe14d", "#ff6b4a", "#4fe0c8"];
const stage = { width: 0, height: 0, scale: 1 };
const scratch = document.createElement("canvas");

const colorOf = (label) => PALETTE[Math.max(0, lesson.classes.findIndex((known) => known.name === label)) % PALETTE.length];

function canvasOf(width, height) {
  return Object.assign(document.createElement("canvas"), { width, height });
}

function setSize(width, height) {
  if (stage.width !== width || stage.height !== height) {
    Object.assign(stage, { width, height });
    Object.assign($("picture"), { width, height });
    $("screen").style.setProperty("--ratio", width / height);
  }
  fitOverlay();
}

function fitOverlay() {
  const shown = $("overlay").getBoundingClientRect(), ratio = Math.min(2, devicePixelRatio || 1);
  const width = Math.max(1, Math.round(shown.width * ratio)), height = Math.max(1, Math.round(shown.height * ratio));
  if ($("overlay").width !== width || $("overlay").height !== height) Object.assign($("overlay"), { width, height });
  stage.scale = width / Math.max(1, stage.width);
}

function drawPicture(image) {
  $("picture").getContext("2d").drawImage(image, 0, 0, stage.width, stage.height);
}

function drawOverlay() {
  fitOverlay();
  const context = $("overlay").getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);
  const shown = marking.held ? marking.marks : view.found;
  for (const mark of shown) if (mark.mask) drawMask(context, mark);
  for (const mark of shown) drawBox(context, mark);
  if (marking.draft) drawBox(context, { label: lesson.current, box: marking.draft, draft: true });
}

function drawMask(context, mark) {
  const { scale } = stage, color = mark.verdict === "wrong" ? "#8a8f98" : colorOf(mark.label);
  const [left, top] = mark.corner || [0, 0], line = Math.max(1, scale * 0.9);
  const x = left * scale, y = top * scale, width = mark.mask.width * scale, height = mark.mask.height * scale;
  Object.assign(scratch, { width: Math.ceil(width + 2 * line) + 2, height: Math.ceil(height + 2 * line) + 2 });
  const pen = scratch.getContext("2d");
  const stamp = (dx, dy) => pen.drawImage(mark.mask, line + 1 + dx, line + 1 + dy, width, height);
  const tint = () => { pen.globalCompositeOperation = "source-in"; pen.fillStyle = color; pen.fillRect(0, 0, scratch.width, scratch.height); };
  stamp(0, 0);
  tint();
  context.globalAlpha = mark.verdict === "wrong" ? 0.25 : 0.42;
  context.drawImage(scratch, x - line - 1, y - line - 1);
  pen.globalCompositeOperation = "source-over";
  pen.clearRect(0, 0, scratch.width, scratch.height);
  for (let turn = 0; turn < 8; turn++) stamp(line * Math.cos((turn * Math.PI) / 4), line * Math.sin((turn * Math.PI) / 4));
  pen.globalCompositeOperation = "destination-out";
  stamp(0, 0);
  tint();
  context.globalAlpha = 1;
  context.drawImage(scratch, x - line - 1, y - line - 1);
  pen.globalCompositeOperation = "source-over";
}

function drawBox(context, mark) {
  const ratio = context.canvas.width / Math.max(1, $("overlay").clientWidth), color = mark.verdict === "wrong" ? "#8a8f98" : colorOf(mark.label);
  const [left, top, right, bottom] = (mark.box || maskBox(mark)).map((edge) => edge * stage.scale);
  context.strokeStyle = color;
  context.lineWidth = (mark.mask ? 1.25 : 2.25) * ratio;
  context.setLineDash(mark.draft || mark.verdict === "open" || mark.verdict === "wrong" ? [6 * ratio, 5 * ratio] : []);
  context.strokeRect(left, top, right - left, bottom - top);
  context.setLineDash([]);
  if (mark.verdict === "wrong") {
    context.beginPath();
    context.moveTo(left, top); context.lineTo(right, bottom); context.moveTo(right, top); context.lineTo(left, bottom);
    context.stroke();
  }
  if (mark.draft) return;
  const words = mark.verdict === "wrong" ? `not ${mark.label}` : mark.verdict === "right" ? `${mark.label} ✓` : mark.score === undefined ? mark.label : `${mark.label} ${mark.score.toFixed(2)}`;
  context.font = `600 ${13 * ratio}px system-ui, sans-serif`;
  const width = context.measureText(words).width + 12 * ratio, height = 20 * ratio;
  const x = Math.max(0, Math.min(left - context.lineWidth / 2, context.canvas.width - width)), y = top >= height ? top - height : top;
  context.fillStyle = color;
  context.fillRect(x, y, width, height);
  context.fillStyle = "#14120f";
  context.textBaseline = "middle";
  context.fillText(words, x + 6 * ratio, y + height / 2 + ratio);
}

function maskBox(mark) {
  const [left, top] = mark.corner || [0, 0], { width, height } = mark.mask;
  const alpha = mark.mask.getContext("2d").getImageData(0, 0, width, height).data;
  let x0 = width, y0 = height, x1 = 0, y1 = 0;
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) if (alpha[4 * (y * width + x) + 3] > 127) {
    x0 = Math.min(x0, x); x1 = Math.max(x1, x + 1); y0 = Math.min(y0, y); y1 = Math.max(y1, y + 1);
  }
  return x1 > x0 ? [left + x0, top + y0, left + x1, top + y1] : [0, 0, 0, 0];
}
