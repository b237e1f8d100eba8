/** The page that `conjoin figure sphere` writes: spheres with buttons around them. Follows sphere.js in one script. */
/* global Sphere, Camera, save, savePicture */

const LIGHT = { blue: "#0077bb", green: "#009988", red: "#cc3311", ink: "#1c1e21", faint: "#80868d", way: "#aab1b9", ball: "#f3f5f7", paper: "#ffffff" };
const DARK = { blue: "#4db2f0", green: "#3fd0bd", red: "#ff8a66", ink: "#e9e7e3", faint: "#8b919b", way: "#5a616d", ball: "#20242b", paper: "#15171b" };

const scenes = JSON.parse(document.getElementById("scenes").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const colours = () => (dark.matches ? DARK : LIGHT);
const camera = new Camera();
const spheres = [...document.querySelectorAll("canvas")].map((canvas, i) => new Sphere(canvas, scenes[i], camera, colours()));
dark.addEventListener("change", () => spheres.forEach((sphere) => sphere.paint(colours())));

const time = document.getElementById("time");
const play = document.getElementById("play");
let started = 0;
const show = () => spheres.forEach((sphere) => sphere.at(time.valueAsNumber === 0 && !started ? null : time.valueAsNumber));
const step = (now) => {
  if (!started) return;
  const span = Number(time.max) - Number(time.min);
  time.valueAsNumber = Number(time.min) + (((now - started) / 1200 + span / 2) % span);
  show();
  requestAnimationFrame(step);
};
time.addEventListener("input", () => { started = 0; play.textContent = "Play the flow"; show(); });
play.addEventListener("click", () => {
  started = started ? 0 : performance.now();
  play.textContent = started ? "Stop" : "Play the flow";
  if (started) requestAnimationFrame(step);
});
document.getElementById("linked")?.addEventListener("change", (event) => {
  spheres.slice(1).forEach((sphere) => {
    const own = event.target.checked ? camera : Object.assign(new Camera(), { longitude: camera.longitude, latitude: camera.latitude });
    sphere.look(own);
  });
});
document.getElementById("home").addEventListener("click", () => spheres.forEach((sphere) => sphere.camera.home()));
document.getElementById("picture").addEventListener("click", () => savePicture(spheres, "spheres.png"));
document.getElementById("data").addEventListener("click", () =>
  save("spheres.json", new Blob([JSON.stringify(scenes, null, 1)], { type: "application/json" })));
