import { defineConfig } from "vite";

const service = "http://127.0.0.1:8311";

export default defineConfig({
  base: "./",
  build: {
    outDir: "../src/conjoin/server/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
  },
  server: {
    host: "127.0.0.1",
    fs: { allow: [".."] },
    proxy: { "/v1": service, "/openapi.json": service },
  },
});
