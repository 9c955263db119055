// The life of a model as users of the `ollama` package for Node lead it: made of a base and of an uploaded file, shown,
// copied, pushed, deleted, pulled, asked. Arguments: the server, a registry's host, a base's name, a GGUF file. Writes one
// JSON object: what each step came to.

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";

import { Ollama } from "ollama";

const [host, registry, base, file] = process.argv.slice(2);
const client = new Ollama({ host });

const names = async () => (await client.list()).models.map((one) => one.name).sort();
const steps = async (stream) => {
  const found = new Set();
  for await (const part of await stream) found.add(part.status);
  return [...found];
};
const failure = async (promise) => {
  try {
    await promise;
    return null;
  } catch (error) {
    return [error.status_code, error.message];
  }
};

const before = await names();
const created = await client.create({
  model: "mario",
  from: base,
  system: "Be Mario.",
  license: "MIT",
  parameters: { temperature: 0, num_predict: 3, stop: ["<a>", "<b>"] },
  messages: [{ role: "user", content: "Who?" }, { role: "assistant", content: "Mario." }],
});
const shown = await client.show({ model: "mario" });

const bytes = await readFile(file);
const digest = `sha256:${createHash("sha256").update(bytes).digest("hex")}`;
await fetch(`${host}/api/blobs/${digest}`, { method: "POST", body: bytes }); // the client has no call for it
const uploaded = await fetch(`${host}/api/blobs/${digest}`, { method: "HEAD" });
const made = await steps(client.create({ model: "small", files: { "small.gguf": digest }, stream: true }));

const remote = `${registry}/me/mario:v1`;
const copied = await client.copy({ source: "mario", destination: remote });
const all = await names();
const pushed = await steps(client.push({ model: remote, insecure: true, stream: true }));
await client.delete({ model: remote });
const pulled = await steps(client.pull({ model: remote, insecure: true, stream: true }));
const again = await client.show({ model: remote });
const answer = await client.chat({ model: remote, messages: [{ role: "user", content: "Hello" }] });
const running = (await client.ps()).models.map((one) => one.name);

for (const model of ["mario", "small", remote]) await client.delete({ model });
const gone = await failure(client.delete({ model: "mario" }));

process.stdout.write(
  JSON.stringify({
    created: created.status,
    system: shown.system,
    license: shown.license,
    parameters: shown.parameters.split("\n").map((line) => line.replace(/ +/, " ")),
    messages: shown.messages.map((message) => [message.role, message.content]),
    parent: shown.details.parent_model,
    uploaded: uploaded.status,
    made: made.at(-1),
    copied: copied.status,
    added: all.filter((name) => !before.includes(name)),
    pushed: pushed.at(-1),
    pulled: [pulled[0], pulled.at(-1)],
    same: again.system === shown.system && again.parameters === shown.parameters && again.license === shown.license,
    count: answer.eval_count,
    model: answer.model,
    running,
    gone,
    left: (await names()).filter((name) => !before.includes(name)),
  }),
);
