/**
 * A scatter plot of up to about 100,000 points in WebGL 2: one draw call per frame, picking through a grid.
 * Common libraries are not used because they generate code at run time, which the page's security policy forbids.
 */
export interface View { readonly x: number; readonly y: number; readonly zoom: number }
export type Polygon = readonly (readonly [number, number])[];
export interface Paint {
  /** r, g, b, a of each point, 0 to 255. */
  readonly colours: Uint8Array;
  /** Diameter of each point in CSS pixels. */
  readonly sizes: Float32Array;
  /** Points in drawing order: later points are on top. */
  readonly order: Uint32Array;
}
export interface Listeners {
  readonly moved: (view: View) => void;
  readonly pointed: (point: number | null, at: readonly [number, number]) => void;
  readonly picked: (point: number) => void;
  readonly encircled: (polygon: Polygon) => void;
  /** Called after every frame with a function that gives the position of a point in CSS pixels. */
  readonly drawn: (at: (point: number) => readonly [number, number]) => void;
  /** Called when a lost WebGL context is restored, for example after sleep: create a new scatter on a new canvas. */
  readonly restored: () => void;
}

export const WHOLE: View = { x: 0, y: 0, zoom: 1 };
const GRID = 128;
const REACH = 9;
const CLICK = 4;
const MARGIN = 0.94;

const VERTEX = `#version 300 es
in vec2 place; in vec4 colour; in float size;
uniform vec2 centre; uniform vec2 scale; uniform float grow;
out vec4 shade;
void main() {
  gl_Position = vec4((place - centre) * scale, 0.0, 1.0);
  gl_PointSize = size * grow;
  shade = colour;
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 shade; out vec4 seen;
void main() {
  float far = length(gl_PointCoord - 0.5) * 2.0;
  float edge = 1.0 - smoothstep(0.75, 1.0, far);
  seen = vec4(shade.rgb, 1.0) * shade.a * edge;
}`;

export class Scatter {
  view: View = WHOLE;
  home: View = WHOLE;
  lasso = false;
  private readonly gl: WebGL2RenderingContext;
  private readonly uniforms: Record<"centre" | "scale" | "grow", WebGLUniformLocation | null>;
  private readonly buffers: Record<"colours" | "sizes" | "order", WebGLBuffer | null>;
  private readonly cells: readonly number[][];
  private readonly fingers = new Map<number, readonly [number, number]>();
  private readonly away = new AbortController();
  private readonly watcher: ResizeObserver;
  private drawn: Paint | null = null;
  private line: [number, number][] | null = null;
  private travelled = 0;
  private frame = 0;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly trace: SVGPolygonElement,
    private readonly x: Float32Array,
    private readonly y: Float32Array,
    private readonly on: Listeners,
  ) {
    const gl = canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: true });
    if (!gl) throw new Error("no WebGL 2");
    this.gl = gl;
    const program = link(gl);
    gl.useProgram(program);
    const both = new Float32Array(2 * x.length);
    for (let i = 0; i < x.length; i++) {
      both[2 * i] = x[i] ?? 0;
      both[2 * i + 1] = y[i] ?? 0;
    }
    attach(gl, program, "place", 2, gl.FLOAT);
    gl.bufferData(gl.ARRAY_BUFFER, both, gl.STATIC_DRAW);
    this.buffers = {
      colours: attach(gl, program, "colour", 4, gl.UNSIGNED_BYTE),
      sizes: attach(gl, program, "size", 1, gl.FLOAT),
      order: gl.createBuffer(),
    };
    this.uniforms = {
      centre: gl.getUniformLocation(program, "centre"),
      scale: gl.getUniformLocation(program, "scale"),
      grow: gl.getUniformLocation(program, "grow"),
    };
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.cells = intoCells(x, y);
    this.listen();
    this.watcher = new ResizeObserver(() => this.draw());
    this.watcher.observe(canvas);
  }

  paint(paint: Paint): void {
    const { gl, buffers } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, buffers.colours);
    gl.bufferData(gl.ARRAY_BUFFER, paint.colours, gl.DYNAMIC_DRAW);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffers.sizes);
    gl.bufferData(gl.ARRAY_BUFFER, paint.sizes, gl.DYNAMIC_DRAW);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, buffers.order);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, paint.order, gl.DYNAMIC_DRAW);
    this.drawn = paint;
    this.draw();
  }

  look(view: View): void {
    this.view = { ...view, zoom: Math.min(Math.max(view.zoom, 0.02), 400) };
    this.draw();
  }

  end(): void {
    cancelAnimationFrame(this.frame);
    this.watcher.disconnect();
    this.away.abort();
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }

  private unit(): number {
    return (Math.min(this.canvas.clientWidth, this.canvas.clientHeight) / 2) * MARGIN * this.view.zoom;
  }

  private world([px, py]: readonly [number, number]): [number, number] {
    const unit = this.unit();
    const { clientWidth: w, clientHeight: h } = this.canvas;
    return [this.view.x + (px - w / 2) / unit, this.view.y - (py - h / 2) / unit];
  }

  private draw(): void {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      const { gl, canvas, uniforms, view } = this;
      const ratio = Math.min(devicePixelRatio || 1, 2);
      const [w, h] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
      if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
      gl.viewport(0, 0, w, h);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT);
      if (!this.drawn || w === 0 || h === 0) return;
      const unit = this.unit() * ratio;
      gl.uniform2f(uniforms.centre, view.x, view.y);
      gl.uniform2f(uniforms.scale, (2 * unit) / w, (2 * unit) / h);
      gl.uniform1f(uniforms.grow, ratio * Math.min(3, view.zoom ** 0.35));
      gl.drawElements(gl.POINTS, this.drawn.order.length, gl.UNSIGNED_INT, 0);
      const [left, top] = [canvas.clientWidth / 2, canvas.clientHeight / 2];
      this.on.drawn((i) => [left + (((this.x[i] ?? 0) - view.x) * unit) / ratio, top - (((this.y[i] ?? 0) - view.y) * unit) / ratio]);
    });
  }

  private nearest(at: readonly [number, number]): number | null {
    const [wx, wy] = this.world(at);
    const reach = REACH / this.unit();
    let best: number | null = null;
    let least = reach * reach;
    const [low, high] = [cell(wx - reach), cell(wx + reach)];
    for (let row = cell(wy - reach); row <= cell(wy + reach); row++) {
      for (let column = low; column <= high; column++) {
        for (const i of this.cells[row * GRID + column] ?? []) {
          const far = ((this.x[i] ?? 0) - wx) ** 2 + ((this.y[i] ?? 0) - wy) ** 2;
          if (far < least) [best, least] = [i, far];
        }
      }
    }
    return best;
  }

  private listen(): void {
    const { canvas } = this;
    const options = { signal: this.away.signal };
    const at = (event: MouseEvent): [number, number] => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.fingers.set(event.pointerId, at(event));
      this.travelled = 0;
      this.line = this.fingers.size === 1 && (this.lasso || event.shiftKey) ? [at(event)] : null;
    }, options);
    canvas.addEventListener("pointermove", (event) => this.drag(event.pointerId, at(event)), options);
    const lift = (event: PointerEvent): void => {
      const last = this.fingers.get(event.pointerId);
      this.fingers.delete(event.pointerId);
      if (!last || this.fingers.size > 0) return;
      if (this.line && this.line.length > 2) this.on.encircled(this.line.map((point) => this.world(point)));
      else if (this.travelled < CLICK && event.type === "pointerup") {
        const hit = this.nearest(last);
        if (hit !== null) this.on.picked(hit);
      } else this.on.moved(this.view);
      this.line = null;
      this.trace.setAttribute("points", "");
    };
    canvas.addEventListener("pointerup", lift, options);
    canvas.addEventListener("pointercancel", lift, options);
    canvas.addEventListener("pointerleave", () => this.on.pointed(null, [0, 0]), options);
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault(), options);
    canvas.addEventListener("webglcontextrestored", () => this.on.restored(), options);
    let settle = 0;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomAt(at(event), Math.exp(-event.deltaY * (event.deltaMode === 1 ? 0.05 : 0.0015)));
      clearTimeout(settle);
      settle = window.setTimeout(() => { if (!this.away.signal.aborted) this.on.moved(this.view); }, 200);
    }, { ...options, passive: false });
    canvas.addEventListener("keydown", (event) => {
      const step = 60 / this.unit();
      const { x, y, zoom } = this.view;
      const moves: Record<string, View> = {
        ArrowLeft: { x: x - step, y, zoom }, ArrowRight: { x: x + step, y, zoom },
        ArrowUp: { x, y: y + step, zoom }, ArrowDown: { x, y: y - step, zoom },
        "+": { x, y, zoom: zoom * 1.3 }, "=": { x, y, zoom: zoom * 1.3 }, "-": { x, y, zoom: zoom / 1.3 }, "0": this.home,
      };
      const next = moves[event.key];
      if (!next || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.look(next);
      this.on.moved(this.view);
    }, options);
  }

  private drag(finger: number, now: [number, number]): void {
    const before = this.fingers.get(finger);
    if (!before) {
      this.on.pointed(this.nearest(now), now);
      return;
    }
    this.travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
    if (this.line) {
      this.line.push(now);
      this.trace.setAttribute("points", this.line.map((point) => point.join()).join(" "));
    } else if (this.fingers.size === 1) {
      const unit = this.unit();
      this.look({ ...this.view, x: this.view.x - (now[0] - before[0]) / unit, y: this.view.y + (now[1] - before[1]) / unit });
      this.on.pointed(null, now);
    } else {
      const other = [...this.fingers].find(([id]) => id !== finger)?.[1] ?? before;
      const stretch = Math.hypot(now[0] - other[0], now[1] - other[1]) / Math.max(Math.hypot(before[0] - other[0], before[1] - other[1]), 1);
      this.zoomAt(other, stretch);
    }
    this.fingers.set(finger, now);
  }

  private zoomAt(at: readonly [number, number], factor: number): void {
    const [wx, wy] = this.world(at);
    this.look({ ...this.view, zoom: this.view.zoom * factor });
    const [nx, ny] = this.world(at);
    this.look({ ...this.view, x: this.view.x + wx - nx, y: this.view.y + wy - ny });
  }
}

export function inside(polygon: Polygon, x: number, y: number): boolean {
  let odd = false;
  for (let i = 0, j = polygon.length - 1; i < polygon.length; j = i++) {
    const [ax, ay] = polygon[i] as readonly [number, number];
    const [bx, by] = polygon[j] as readonly [number, number];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
  }
  return odd;
}

function cell(value: number): number {
  return Math.min(GRID - 1, Math.max(0, Math.floor(((value + 1) / 2) * GRID)));
}

function intoCells(x: Float32Array, y: Float32Array): number[][] {
  const cells: number[][] = Array.from({ length: GRID * GRID }, () => []);
  for (let i = 0; i < x.length; i++) cells[cell(y[i] ?? 0) * GRID + cell(x[i] ?? 0)]?.push(i);
  return cells;
}

function link(gl: WebGL2RenderingContext): WebGLProgram {
  const program = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
    const shader = gl.createShader(kind);
    if (!shader) throw new Error("no WebGL shader");
    gl.shaderSource(shader, text);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program) ?? "WebGL program");
  return program;
}

function attach(gl: WebGL2RenderingContext, program: WebGLProgram, name: string, width: number, kind: number): WebGLBuffer | null {
  const buffer = gl.createBuffer();
  const place = gl.getAttribLocation(program, name);
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
  gl.enableVertexAttribArray(place);
  gl.vertexAttribPointer(place, width, kind, kind === gl.UNSIGNED_BYTE, 0, 0);
  return buffer;
}
