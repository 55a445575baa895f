// A camera that turns around a point. Vectors are arrays of three; a pose is from camera to world, which looks along -z.
const add = (a, b) => a.map((value, i) => value + b[i]);
const scaled = (a, factor) => a.map((value) => value * factor);
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const unit = (a) => scaled(a, 1 / Math.max(1e-12, Math.hypot(...a)));
const STEEPEST = 1.53; // radians from the horizon; at the pole itself, up would be undefined

class Orbit {
  constructor(pose, center, up) {
    this.up = unit(up);
    const eye = pose.slice(0, 3).map((row) => row[3]), away = add(eye, scaled(center, -1));
    const side = Math.abs(this.up[0]) < 0.9 ? [1, 0, 0] : [0, 1, 0];
    this.east = unit(add(side, scaled(this.up, -dot(side, this.up))));
    this.north = cross(this.up, this.east);
    const flat = [dot(away, this.east), dot(away, this.north)], high = dot(away, this.up);
    this.start = { angle: Math.atan2(flat[1], flat[0]), tilt: Math.atan2(high, Math.hypot(...flat)), distance: Math.max(1e-6, Math.hypot(...away)), center: [...center] };
    this.reset();
  }

  reset() { Object.assign(this, { ...this.start, center: [...this.start.center] }); this.bound(); }

  bound() { this.tilt = Math.max(-STEEPEST, Math.min(STEEPEST, this.tilt)); }

  turn(across, down) {
    this.angle -= across;
    this.tilt += down;
    this.bound();
  }

  zoom(factor) { this.distance = Math.max(this.start.distance / 50, Math.min(this.start.distance * 10, this.distance * factor)); }

  back() {
    const flat = add(scaled(this.east, Math.cos(this.angle)), scaled(this.north, Math.sin(this.angle)));
    return add(scaled(flat, Math.cos(this.tilt)), scaled(this.up, Math.sin(this.tilt)));
  }

  axes() {
    const back = this.back(), right = unit(cross(this.up, back));
    return [right, cross(back, right), back];
  }

  pan(across, down) {
    const [right, above] = this.axes();
    this.center = add(this.center, add(scaled(right, -across * this.distance), scaled(above, down * this.distance)));
  }

  pose() {
    const [right, above, back] = this.axes(), eye = add(this.center, scaled(back, this.distance));
    return [0, 1, 2].flatMap((i) => [right[i], above[i], back[i], eye[i]]).concat([0, 0, 0, 1]);
  }
}
