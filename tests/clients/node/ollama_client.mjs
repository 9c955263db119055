// What users of the `ollama` package for Node do, run against the servers whose addresses are given: one as it is, one
// whose model has tools, one that gives vectors. Writes one JSON object: for each scenario what it returned, or the name
// and status of the error it threw.

import { Ollama } from "ollama";

import { tools, weatherIn } from "./weather.mjs";

const [client, calling, embedding] = process.argv.slice(2).map((host) => new Ollama({ host }));
const model = "smollm2";
const options = { temperature: 0, num_predict: 8 };
const ask = { model, messages: [{ role: "user", content: "Say hi." }], options };
const told = (city) => [
  weatherIn(city),
  { role: "assistant", content: "", tool_calls: [{ function: { name: "get_weather", arguments: { city } } }] },
  { role: "tool", content: "sunny", tool_name: "get_weather" },
  { role: "assistant", content: "It is sunny." },
];
const toCall = {
  model: "model",
  messages: [...told("London"), ...told("Rome"), weatherIn("Paris")],
  tools,
  options: { temperature: 0, num_predict: 64 },
};

const joined = async (stream, text) => {
  let content = "";
  let last = null;
  for await (const part of stream) {
    content += text(part);
    last = part;
  }
  return { content, done: last.done, count: last.eval_count };
};

const scenarios = {
  async chat() {
    const answer = await client.chat(ask);
    return { content: answer.message.content, done: answer.done, count: answer.eval_count };
  },

  async chatStream() {
    return joined(await client.chat({ ...ask, stream: true }), (part) => part.message.content);
  },

  async generate() {
    const answer = await client.generate({ model, prompt: "Say hi.", options });
    return { content: answer.response, done: answer.done, count: answer.eval_count };
  },

  async generateStream() {
    const stream = await client.generate({ model, prompt: "Say hi.", options, stream: true });
    return joined(stream, (part) => part.response);
  },

  async form() {
    const format = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const answer = await client.chat({ ...ask, format, options: { ...options, num_predict: 32 } });
    return JSON.parse(answer.message.content);
  },

  async tool() {
    const { message } = await calling.chat(toCall);
    return message.tool_calls.map((call) => call.function);
  },

  async toolStream() {
    const calls = [];
    for await (const part of await calling.chat({ ...toCall, stream: true })) calls.push(...(part.message.tool_calls ?? []));
    return calls.map((call) => call.function);
  },

  async embed() {
    const answer = await embedding.embed({ model, input: ["Hello", "Goodbye"], dimensions: 16 });
    return answer.embeddings.map((vector) => vector.length);
  },

  async embeddings() {
    return (await embedding.embeddings({ model, prompt: "Hello" })).embedding.length;
  },

  async about() {
    const listed = (await client.list()).models.map((one) => one.model);
    const running = (await client.ps()).models.map((one) => one.model);
    const shown = await client.show({ model });
    return { listed, running, capabilities: shown.capabilities, version: typeof (await client.version()).version };
  },

  async nowhere() {
    await client.chat({ ...ask, model: "nosuch" });
  },

  async badOption() {
    await client.chat({ ...ask, options: { temperature: "hot" } });
  },

  async abort() {
    const stream = await client.chat({ ...ask, options: { temperature: 0, stop: ["never"] }, stream: true });
    let parts = 0;
    let aborted = "";
    try {
      for await (const _ of stream) {
        parts += 1;
        if (parts === 3) stream.abort();
      }
    } catch (error) {
      aborted = error.name;
    }
    const after = await client.chat({ ...ask, options: { num_predict: 1 } });
    return { parts, aborted, after: after.eval_count };
  },
};

const results = {};
for (const [name, scenario] of Object.entries(scenarios)) {
  try {
    results[name] = await scenario();
  } catch (error) {
    results[name] = { error: error.name, status: error.status_code ?? null, message: error.message };
  }
}
process.stdout.write(JSON.stringify(results));
