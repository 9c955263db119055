// What users of the `openai` package for Node do, run against the servers whose addresses are given: one as it is, one
// whose model has tools, one that gives vectors. Writes one JSON object: for each scenario what it returned, or the name
// and status of the error it threw.

import OpenAI from "openai";

import { tools, weatherIn } from "./weather.mjs";

const [client, calling, embedding] = process.argv
  .slice(2)
  .map((url) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 }));
const ask = { model: "any", messages: [{ role: "user", content: "Say hi." }], max_tokens: 5, temperature: 0 };
const told = (city, id) => [
  weatherIn(city),
  {
    role: "assistant",
    content: null,
    tool_calls: [{ id, type: "function", function: { name: "get_weather", arguments: `{"city": "${city}"}` } }],
  },
  { role: "tool", tool_call_id: id, content: "sunny" },
  { role: "assistant", content: "It is sunny." },
];
const toCall = {
  ...ask,
  tools,
  max_tokens: 64,
  messages: [...told("London", "c1"), ...told("Rome", "c2"), weatherIn("Paris")],
};

const scenarios = {
  async models() {
    const found = [];
    for await (const model of client.models.list()) found.push(model.id);
    return found;
  },

  async chat() {
    const answer = await client.chat.completions.create(ask);
    const { finish_reason, message } = answer.choices[0];
    return { finish_reason, content: message.content, usage: answer.usage, receipt: answer.bankml_receipt };
  },

  async stream() {
    const stream = await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } });
    let content = "";
    let usage = null;
    for await (const chunk of stream) {
      content += chunk.choices[0]?.delta?.content ?? "";
      usage = chunk.usage ?? usage;
    }
    return { content, usage };
  },

  async streamHelper() {
    const stream = client.chat.completions.stream({ ...ask, max_tokens: 64, stop: [","] });
    const { content } = (await stream.finalChatCompletion()).choices[0].message;
    return content;
  },

  async logprobs() {
    const answer = await client.chat.completions.create({ ...ask, logprobs: true, top_logprobs: 2 });
    return answer.choices[0].logprobs.content.map((token) => [token.token, token.top_logprobs.length]);
  },

  async form() {
    const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const response_format = { type: "json_schema", json_schema: { name: "city", schema } };
    const answer = await client.chat.completions.create({ ...ask, max_tokens: 32, response_format });
    return JSON.parse(answer.choices[0].message.content);
  },

  async completion() {
    const answer = await client.completions.create({ model: "any", prompt: "Once upon a time", max_tokens: 4, temperature: 0 });
    return answer.choices[0].text;
  },

  async response() {
    const answer = await client.responses.create({ model: "any", input: "Say hi.", max_output_tokens: 5, temperature: 0 });
    return { status: answer.status, text: answer.output_text, usage: answer.usage, receipt: answer.bankml_receipt };
  },

  async responseStream() {
    const stream = await client.responses.create({
      model: "any", input: "Say hi.", max_output_tokens: 5, temperature: 0, stream: true,
    });
    let text = "";
    let completed = null;
    const types = [];
    for await (const event of stream) {
      types.push(event.type);
      if (event.type === "response.output_text.delta") text += event.delta;
      if (event.type === "response.completed") completed = event.response;
    }
    return { text, types, status: completed.status, receipt: completed.bankml_receipt };
  },

  async tool() {
    const { finish_reason, message } = (await calling.chat.completions.create(toCall)).choices[0];
    return { finish_reason, calls: message.tool_calls.map((call) => call.function) };
  },

  async toolStream() {
    const stream = calling.chat.completions.stream(toCall);
    const { message } = (await stream.finalChatCompletion()).choices[0];
    return message.tool_calls.map(({ function: { name, arguments: given } }) => ({ name, arguments: given }));
  },

  async embeddings() {
    const answer = await embedding.embeddings.create({ model: "any", input: ["hello", "world"] });
    return answer.data.map((one) => one.embedding.length);
  },

  async tooLong() {
    await client.chat.completions.create({ ...ask, messages: [{ role: "user", content: "word ".repeat(9000) }] });
  },

  async badField() {
    await client.chat.completions.create({ ...ask, temperature: "hot" });
  },

  async nowhere() {
    await client.get("/nowhere");
  },

  async abort() {
    const stream = await client.chat.completions.create({ ...ask, max_tokens: 4096, ignore_eos: true, stream: true });
    let chunks = 0;
    for await (const chunk of stream) {
      chunks += chunk.choices.length;
      if (chunks === 3) stream.controller.abort();
    }
    const after = await client.chat.completions.create({ ...ask, max_tokens: 1 });
    return { chunks, after: after.choices.length };
  },
};

const results = {};
for (const [name, scenario] of Object.entries(scenarios)) {
  try {
    results[name] = await scenario();
  } catch (error) {
    results[name] = { error: error.constructor.name, status: error.status ?? null, message: error.message };
  }
}
process.stdout.write(JSON.stringify(results));
