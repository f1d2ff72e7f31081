/** Builds the page into rollout/viewer/page/: `npm run build`, or `npm run watch` while working on it.
 *
 * `sources.sha256` is written beside the built files, so that a test without Node sees whether they match the source.
 * The hash is made of the names and contents of all that the build reads, in the order of the names. */

import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.env.ROLLOUT_PAGE_DIR ?? join(here, "..", "rollout", "viewer", "page");
const READ = ["build.mjs", "package.json", "package-lock.json", "tsconfig.json", "src"];

function filesBelow(path) {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path).flatMap((name) => filesBelow(join(path, name)));
}

function hashSources() {
  const hash = createHash("sha256");
  const names = READ.flatMap((name) => filesBelow(join(here, name))).map((path) => relative(here, path).split(sep).join("/"));
  for (const name of names.sort()) {
    const content = readFileSync(join(here, name));
    hash.update(`${name}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex");
}

const options = {
  entryPoints: { app: join(here, "src", "main.tsx") },
  outdir: target,
  absWorkingDir: here,
  bundle: true,
  minify: true,
  format: "iife",
  target: ["es2022"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
  banner: { js: "/* Built from frontend/ by `make page`. Contains Preact and uPlot (MIT). */" },
};

const finish = {
  name: "finish",
  setup(build) {
    build.onEnd(() => {
      mkdirSync(target, { recursive: true });
      copyFileSync(join(here, "src", "index.html"), join(target, "index.html"));
      writeFileSync(join(target, "sources.sha256"), `${hashSources()}\n`);
      const sizes = ["index.html", "app.js", "app.css"].map((name) => `${name} ${(statSync(join(target, name)).size / 1000).toFixed(1)} kB`);
      console.log(sizes.join(", "));
    });
  },
};

if (process.argv.includes("--watch")) {
  const context = await esbuild.context({ ...options, plugins: [finish] });
  await context.watch();
} else {
  await esbuild.build({ ...options, plugins: [finish] });
}
