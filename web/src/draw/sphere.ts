/** The sphere that `conjoin figure sphere` draws too: one source, kept with the Python package. */
export { Camera, save, savePicture, Sphere } from "../../../src/conjoin/geometry/sphere.js";
export type { Colours, Complex, Scene } from "../../../src/conjoin/geometry/sphere.js";
