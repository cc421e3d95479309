import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { env, execPath } from "node:process";
import { test } from "node:test";
import { promisify } from "node:util";

const run = promisify(execFile);
const folder = resolve(import.meta.dirname, "../..");

// Compiler options of a careful user, without skipLibCheck.
const tsconfig = {
  compilerOptions: {
    target: "ES2022",
    module: "NodeNext",
    strict: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    verbatimModuleSyntax: true,
    types: ["node"],
    typeRoots: [join(folder, "node_modules/@types")],
  },
};

// The names that the examples after the quick start take from it.
const names = `import { APIError, createClient } from "@agents.example/client";
const session = { accessToken: async () => "", renew: async (refused: string) => refused };
const id = "";
{
`;

/** Returns the TypeScript examples of the README. */
async function examples(): Promise<string[]> {
  const text = await readFile(join(folder, "README.md"), "utf8");
  return [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ""]) => code);
}

test("the package has what users need, and the README's examples work with it", async (t) => {
  const dir = await mkdtemp(join(tmpdir(), "client-package-"));
  t.after(() => rm(dir, { recursive: true }));
  const packed = await run("npm", ["pack", "--json", "--foreground-scripts=false", "--pack-destination", dir], { cwd: folder });
  const [{ filename, files }] = JSON.parse(packed.stdout) as [{ filename: string; files: { path: string }[] }];
  const paths = files.map((f) => f.path);
  for (const path of ["README.md", "package.json", "dist/index.js", "dist/index.d.ts", "dist/schema.d.ts", "CHANGELOG.md"]) {
    assert.ok(paths.includes(path), `${path} is not in the package: ${paths}`);
  }
  const others = paths.filter((path) => !/^(dist\/\w+(\.d\.ts|\.js)|README\.md|CHANGELOG\.md|package\.json)$/.test(path));
  assert.deepEqual(others, []);

  await writeFile(join(dir, "package.json"), JSON.stringify({ private: true, type: "module" }));
  const flags = ["--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
  await run("npm", ["install", ...flags, join(dir, filename)], { cwd: dir });

  const [quickStart = "", ...rest] = await examples();
  await writeFile(join(dir, "tsconfig.json"), JSON.stringify(tsconfig));
  await writeFile(join(dir, "quickstart.ts"), quickStart);
  for (const [i, example] of rest.entries()) {
    const api = example.includes("const api") ? "" : 'const api = createClient({ baseURL: "", token: "so_key" });\n';
    const exports = "export { APIError, createClient, id, session };";
    await writeFile(join(dir, `example${i}.ts`), `${names}${api}${example}}\n${exports}\n`);
  }
  await run(execPath, [join(folder, "node_modules/typescript/bin/tsc")], { cwd: dir }).catch((error) => {
    assert.fail(`the examples do not compile:\n${error.stdout}`);
  });

  await t.test("the quick start runs", { skip: !env.AGENTS_BASE_URL && "AGENTS_BASE_URL is not set" }, async () => {
    const { stdout } = await run(execPath, ["quickstart.js"], { cwd: dir, timeout: 10 * 60_000 });
    assert.match(stdout, /My first agent is running: http/);
    assert.match(stdout, /The agent is deleted\n$/);
  });
});
