/**
 * The Riemann sphere on a canvas: a circle, its images under a Möbius map and its inverse, the flow, the fixed points.
 * Drawn by the explorer and, word for word, by the page that `conjoin figure sphere` writes. No dependency; a scene is
 * what conjoin.geometry.scene writes. Everything lies on the sphere and is seen from infinitely far, so what is hidden
 * is exactly what turns away: no depth buffer, and lines stay as sharp as print.
 *
 * @typedef {readonly [number, number]} Complex
 * @typedef {readonly [number, number, number]} Place
 * @typedef {{place: Place, role: "attracting" | "repelling" | "centre" | "double" | "value"}} Still
 * @typedef {{
 *   run: string, form: string, relation: string, entity: string, coordinate: number, note: string, words: string,
 *   kind: string, stretch: number | null, turn: number | null, matrix: readonly Complex[],
 *   generator: readonly Complex[] | null, flowing: readonly Complex[] | null, reach: number, place: readonly Complex[], curve: readonly (readonly Complex[])[],
 *   value: Place | null, fixed: readonly Still[], borrowed: boolean, facing: number, apart: boolean, iterates: number
 * }} Scene
 * @typedef {{blue: string, green: string, red: string, ink: string, faint: string, way: string, ball: string, paper: string}} Colours
 * @typedef {readonly [Complex, Complex, Complex, Complex]} Matrix
 * @typedef {{width: number, height: number, ratio: number}} Size
 */

const LINES = 8;
const STEPS = 180;
const BEHIND = 0.22;
const PALEST = 0.62;
const TURN = 0.008;
const HOME = { longitude: (10 * Math.PI) / 180, latitude: (-8 * Math.PI) / 180 };

/** @param {Complex} p @param {Complex} q @returns {Complex} */
const times = ([a, b], [c, d]) => [a * c - b * d, a * d + b * c];
/** @param {Complex} p @param {Complex} q @returns {Complex} */
const plus = ([a, b], [c, d]) => [a + c, b + d];
/** @param {Complex} p @param {number} s @returns {Complex} */
const scaled = ([a, b], s) => [a * s, b * s];
/** @param {Complex} z @returns {Complex} */
const root = ([a, b]) => {
  const size = Math.hypot(a, b);
  const re = Math.sqrt(Math.max(0, (size + a) / 2));
  return [re, Math.sign(b || 1) * Math.sqrt(Math.max(0, (size - a) / 2))];
};
/** @param {Complex} z @returns {Complex} */
const cosh = ([a, b]) => [Math.cosh(a) * Math.cos(b), Math.sinh(a) * Math.sin(b)];
/** sinh(z)/z @param {Complex} z @returns {Complex} */
const sinhc = ([a, b]) => {
  const size = a * a + b * b;
  if (size < 1e-8) return plus([1, 0], scaled(times([a, b], [a, b]), 1 / 6));
  return scaled(times([Math.sinh(a) * Math.cos(b), Math.cosh(a) * Math.sin(b)], [a, -b]), 1 / size);
};

/**
 * The map at time t of the flow: exp(t · generator).
 * @param {readonly Complex[]} generator @param {number} t @returns {Matrix}
 */
export function flow(generator, t) {
  const [a, b, c, d] = /** @type {Matrix} */ (generator);
  const half = scaled(root(plus(times(b, c), scaled(times(a, d), -1))), t);
  const even = cosh(half);
  const odd = scaled(sinhc(half), t);
  return [plus(even, times(odd, a)), times(odd, b), times(odd, c), plus(even, times(odd, d))];
}

/** The point (x : w) on the sphere. @param {Complex} x @param {Complex} w @returns {Place} */
export function toSphere(x, w) {
  const xx = x[0] ** 2 + x[1] ** 2;
  const ww = w[0] ** 2 + w[1] ** 2;
  const across = times(x, [w[0], -w[1]]);
  const size = xx + ww;
  return [(2 * across[0]) / size, (2 * across[1]) / size, (xx - ww) / size];
}

/** @param {Matrix} m @param {readonly Complex[]} point @returns {[Complex, Complex]} */
function image([a, b, c, d], point) {
  const [x, w] = /** @type {[Complex, Complex]} */ (point);
  return [plus(times(a, x), times(b, w)), plus(times(c, x), times(d, w))];
}

/** @param {Matrix} m @param {readonly Complex[]} point @returns {Place} */
const moved = (m, point) => toSphere(...image(m, point));

/** From where the spheres are seen. Several may share one: then they turn together. */
export class Camera {
  constructor() {
    this.longitude = HOME.longitude;
    this.latitude = HOME.latitude;
    /** @type {Set<() => void>} */
    this.watchers = new Set();
  }

  /** @param {number} right @param {number} up */
  turn(right, up) {
    this.longitude -= right * TURN;
    this.latitude = Math.max(-Math.PI / 2, Math.min(Math.PI / 2, this.latitude + up * TURN));
    for (const watcher of this.watchers) watcher();
  }

  home() {
    Object.assign(this, HOME);
    for (const watcher of this.watchers) watcher();
  }
}

export class Sphere {
  /** @param {HTMLCanvasElement} canvas @param {Scene} scene @param {Camera} camera @param {Colours} colours */
  constructor(canvas, scene, camera, colours) {
    this.canvas = canvas;
    this.scene = scene;
    this.colours = colours;
    /** @type {number | null} */
    this.time = null;
    this.frame = 0;
    this.away = new AbortController();
    this.ask = () => this.draw();
    this.camera = camera;
    camera.watchers.add(this.ask);
    this.curves = curvesOf(scene);
    this.watcher = new ResizeObserver(this.ask);
    this.watcher.observe(canvas);
    this.listen();
  }

  /** @param {Camera} camera */
  look(camera) {
    this.camera.watchers.delete(this.ask);
    this.camera = camera;
    camera.watchers.add(this.ask);
    this.draw();
  }

  /** Show the circle at time t of the flow, or not. @param {number | null} t */
  at(t) {
    this.time = t;
    this.draw();
  }

  /** @param {Colours} colours */
  paint(colours) {
    this.colours = colours;
    this.draw();
  }

  end() {
    cancelAnimationFrame(this.frame);
    this.camera.watchers.delete(this.ask);
    this.watcher.disconnect();
    this.away.abort();
  }

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const ratio = Math.min(devicePixelRatio || 1, 2);
      const width = Math.round(this.canvas.clientWidth * ratio);
      const height = Math.round(this.canvas.clientHeight * ratio);
      if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
      const pen = this.canvas.getContext("2d");
      if (!pen || !width || !height) return;
      pen.clearRect(0, 0, width, height);
      this.render(pen, { width, height, ratio });
    });
  }

  /** The sphere on a white ground, for a file. @param {number} side @returns {HTMLCanvasElement} */
  picture(side) {
    const canvas = document.createElement("canvas");
    Object.assign(canvas, { width: side, height: side });
    const pen = canvas.getContext("2d");
    if (pen) {
      pen.fillStyle = this.colours.paper;
      pen.fillRect(0, 0, side, side);
      this.render(pen, { width: side, height: side, ratio: side / 480 });
    }
    return canvas;
  }

  /** @param {CanvasRenderingContext2D} pen @param {Size} size */
  render(pen, { width, height, ratio }) {
    const { scene, colours, camera, curves, time } = this;
    const longitude = scene.facing + camera.longitude;
    const [cl, sl, cb, sb] = [Math.cos(longitude), Math.sin(longitude), Math.cos(camera.latitude), Math.sin(camera.latitude)];
    const unit = 0.44 * Math.min(width, height);
    /** @param {Place} p @returns {Place} */
    const seen = ([x, y, z]) => {
      const front = cl * x + sl * y;
      return [width / 2 + unit * (cl * y - sl * x), height / 2 - unit * (cb * z - sb * front), cb * front + sb * z];
    };
    /** @param {readonly Place[]} line @param {string} colour @param {number} thick @param {number} pale @param {boolean} [dashed] */
    const stroke = (line, colour, thick, pale, dashed) => {
      const points = line.map(seen);
      pen.strokeStyle = colour;
      pen.lineWidth = thick * ratio;
      pen.setLineDash(dashed ? [5 * ratio, 3 * ratio] : []);
      for (const front of [false, true]) {
        pen.globalAlpha = (1 - pale) * (front ? 1 : BEHIND);
        pen.beginPath();
        let down = false;
        for (let i = 1; i < points.length; i++) {
          const [p, q] = [/** @type {Place} */ (points[i - 1]), /** @type {Place} */ (points[i])];
          const here = p[2] + q[2] >= 0 === front;
          if (here && !down) pen.moveTo(p[0], p[1]);
          if (here) pen.lineTo(q[0], q[1]);
          down = here;
        }
        pen.stroke();
      }
      pen.setLineDash([]);
      pen.globalAlpha = 1;
    };

    pen.lineJoin = "round";
    pen.beginPath();
    pen.arc(width / 2, height / 2, unit, 0, 2 * Math.PI);
    pen.fillStyle = colours.ball;
    pen.fill();
    pen.strokeStyle = colours.faint;
    pen.lineWidth = ratio;
    pen.stroke();
    stroke(curves.equator, colours.faint, 1, 0);
    for (const line of curves.lines) stroke(line, colours.way, 0.8, 0);
    for (const [images, colour] of /** @type {const} */ ([[curves.back, colours.red], [curves.forth, colours.green]])) {
      for (let n = images.length; n >= 1; n--) {
        const pale = (PALEST * (n - 1)) / Math.max(scene.iterates - 1, 1);
        stroke(/** @type {Place[]} */ (images[n - 1]), colour, 2.2, pale, scene.apart && n % 2 === 1);
      }
    }
    stroke(curves.blue, colours.blue, 3, 0);
    if (time !== null && scene.generator) {
      const now = scene.apart && scene.flowing ? flow(scene.flowing, time / 2) : flow(scene.generator, time);
      stroke(scene.curve.map((point) => moved(now, point)), colours.ink, 3.2, 0);
    }
    const label = `${12 * ratio}px system-ui, sans-serif`;
    pen.textAlign = "center";
    for (const [pole, text] of /** @type {const} */ ([[1, "∞"], [-1, "0"]])) {
      const [x, y, near] = seen([0, 0, pole]);
      pen.globalAlpha = near > 0 ? 1 : 0.5;
      dot(pen, x, y, 1.8 * ratio, colours.faint, null);
      pen.fillStyle = colours.faint;
      pen.font = label;
      pen.fillText(text, x, y + (pole * Math.sign(cb || 1) > 0 ? -7 : 16) * ratio);
    }
    const [ex, ey, en] = seen(curves.entity);
    pen.globalAlpha = en > 0 ? 1 : 0.35;
    dot(pen, ex, ey, 2.6 * ratio, colours.blue, null);
    for (const { place, role } of scene.fixed) {
      const [x, y, near] = seen(place);
      pen.globalAlpha = near > -0.02 ? 1 : 0.4;
      const face = role === "repelling" ? colours.paper : role === "value" ? colours.green : colours.ink;
      dot(pen, x, y, 4.6 * ratio, face, colours.ink, role === "centre" || role === "double", ratio);
    }
    pen.globalAlpha = 1;
  }

  listen() {
    const { canvas } = this;
    const options = { signal: this.away.signal };
    /** @type {Map<number, readonly [number, number]>} */
    const fingers = new Map();
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, [event.clientX, event.clientY]);
    }, options);
    canvas.addEventListener("pointermove", (event) => {
      const last = fingers.get(event.pointerId);
      if (!last) return;
      this.camera.turn(event.clientX - last[0], event.clientY - last[1]);
      fingers.set(event.pointerId, [event.clientX, event.clientY]);
    }, options);
    for (const end of /** @type {const} */ (["pointerup", "pointercancel"])) {
      canvas.addEventListener(end, (event) => fingers.delete(event.pointerId), options);
    }
    canvas.addEventListener("dblclick", () => this.camera.home(), options);
    canvas.addEventListener("keydown", (event) => {
      /** @type {Record<string, readonly [number, number]>} */
      const steps = { ArrowLeft: [-12, 0], ArrowRight: [12, 0], ArrowUp: [0, -12], ArrowDown: [0, 12] };
      const step = steps[event.key];
      if (!step && event.key !== "0") return;
      event.preventDefault();
      if (step) this.camera.turn(...step);
      else this.camera.home();
    }, options);
  }
}

/** @param {CanvasRenderingContext2D} pen @param {number} x @param {number} y @param {number} r @param {string} face @param {string | null} edge @param {boolean} [tilted] @param {number} [ratio] */
function dot(pen, x, y, r, face, edge, tilted = false, ratio = 1) {
  pen.beginPath();
  if (tilted) {
    for (const [dx, dy] of /** @type {const} */ ([[1, 0], [0, 1], [-1, 0], [0, -1]])) pen.lineTo(x + 1.2 * r * dx, y + 1.2 * r * dy);
    pen.closePath();
  } else pen.arc(x, y, r, 0, 2 * Math.PI);
  pen.fillStyle = face;
  pen.fill();
  if (!edge) return;
  pen.strokeStyle = edge;
  pen.lineWidth = 1.4 * ratio;
  pen.stroke();
}

/** What does not depend on the camera. @param {Scene} scene */
function curvesOf(scene) {
  /** @type {Matrix} */
  const still = [[1, 0], [0, 0], [0, 0], [1, 0]];
  const { generator, curve, iterates, value } = scene;
  const counted = Array.from({ length: iterates }, (_, i) => i + 1);
  /** @param {number} t @returns {Place[]} */
  const at = (t) => curve.map((point) => moved(flow(/** @type {Matrix} */ (generator), t), point));
  const few = curve.slice(0, -1).filter((_, i) => i % Math.max(1, Math.floor((curve.length - 1) / LINES)) === 0);
  const once = flow(generator ?? still, 1);
  const starts = scene.apart ? [...few, ...few.map((point) => image(once, point))] : few;
  const moments = Array.from({ length: 2 * STEPS + 1 }, (_, i) => flow(scene.flowing ?? still, (scene.reach * (i - STEPS)) / STEPS));
  return {
    equator: Array.from({ length: 121 }, (_, i) => /** @type {Place} */ ([Math.cos((i * Math.PI) / 60), Math.sin((i * Math.PI) / 60), 0])),
    blue: curve.map((point) => moved(still, point)),
    entity: moved(still, scene.place),
    forth: generator ? counted.map(at) : value ? [[value, value]] : [],
    back: generator ? counted.map((n) => at(-n)) : [],
    lines: generator && scene.kind !== "identity" ? starts.map((point) => moments.map((m) => moved(m, point))) : [],
  };
}

/** Hand a file to the reader. @param {string} name @param {Blob} content */
export function save(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** @type {Record<string, string>} The letters below the line that the paper's signs have. */
const BELOW = { n: "ₙ", v: "ᵥ", h: "ₕ", r: "ᵣ" };

/** The spheres side by side as one PNG. @param {readonly Sphere[]} spheres @param {string} name @param {number} [side] */
export function savePicture(spheres, name, side = 1200) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: side * spheres.length, height: side + 90 });
  const pen = canvas.getContext("2d");
  const first = spheres[0];
  if (!pen || !first) return;
  pen.fillStyle = first.colours.paper;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  spheres.forEach((sphere, i) => {
    const { form, relation, coordinate, words, borrowed } = sphere.scene;
    pen.drawImage(sphere.picture(side), i * side, 90);
    pen.textAlign = "center";
    pen.fillStyle = sphere.colours.ink;
    pen.font = "bold 36px system-ui, sans-serif";
    const sign = form.replace(/_([nvhr])$/, (_, letter) => BELOW[letter] ?? letter);
    pen.fillText(`${sign}, ${relation}, coordinate ${coordinate}`, (i + 0.5) * side, 50, side - 40);
    pen.fillStyle = sphere.colours.faint;
    pen.font = "28px system-ui, sans-serif";
    pen.fillText(borrowed ? `${words}; trained in another reading` : words, (i + 0.5) * side, 90, side - 40);
  });
  canvas.toBlob((blob) => { if (blob) save(name, blob); }, "image/png");
}
