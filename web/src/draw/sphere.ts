/** The sphere that `conjoin figure sphere` also uses. The only source is in the Python package. */
export { Camera, save, savePicture, Sphere } from "../../../src/conjoin/geometry/sphere.js";
export type { Colours, Complex, Scene } from "../../../src/conjoin/geometry/sphere.js";
