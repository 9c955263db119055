// A tool, and the question that asks for it: the clients' scripts share them.

export const tools = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather of a city",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];

export const weatherIn = (city) => ({ role: "user", content: `What is the weather in ${city}?` });
