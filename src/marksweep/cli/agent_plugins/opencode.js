// marksweep for opencode: what goes to the model fits the limit; the session itself is not changed.
import { COMMAND, fit } from "./fit.js";

const ENDED = ["completed", "error"];

// The history as chat messages, and the part or message of opencode that each stands for.
function read(history) {
  const messages = [];
  const places = [];
  for (const message of history) {
    const texts = message.parts.filter((part) => part.type === "text" && !part.ignored);
    const content = texts.map((part) => part.text).join("\n");
    const tools = message.parts.filter((part) => part.type === "tool" && ENDED.includes(part.state.status));
    const calls = tools.map((part) => ({
      id: part.callID,
      type: "function",
      function: { name: part.tool, arguments: JSON.stringify(part.state.input ?? {}) },
    }));
    messages.push({ role: message.info.role, content, ...(calls.length && { tool_calls: calls }) });
    places.push({ message, texts });
    for (const part of tools) {
      messages.push({ role: "tool", tool_call_id: part.callID, content: part.state.output ?? part.state.error ?? "" });
      places.push({ message, part });
    }
  }
  return { messages, places };
}

function replace(message, parts, made) {
  message.parts = message.parts.flatMap((part) => (parts.includes(part) ? (part === parts[0] ? made : []) : [part]));
}

// Apply the result to the history: `kept` has the indices of messages, and their replacements.
function write(history, places, kept) {
  const found = new Map(kept.filter((each) => each.at !== null).map((each) => [each.at, each.message]));
  places.forEach(({ message, texts, part }, at) => {
    const now = found.get(at);
    if (found.has(at) && now === null) return;
    if (part) {
      const output = { ...part, state: { ...part.state, output: now?.content } };
      replace(message, [part], now && part.state.status === "completed" ? [output] : now ? [part] : []);
    } else replace(message, texts, now && texts[0] ? [{ ...texts[0], text: now.content }] : []);
  });
  let user;
  for (const { at, message } of kept) {
    if (at !== null) user = places[at].message.info.role === "user" ? places[at].message : user;
    else if (user) user.parts = [...user.parts, { ...user.parts[0], type: "text", text: message.content }];
  }
  const says = (part) => ["text", "tool", "file"].includes(part.type);
  history.splice(0, history.length, ...history.filter((message) => message.parts.some(says)));
}

export const Marksweep = async () => ({
  config: async (config) => {
    const server = { type: "local", command: [...COMMAND, "swept", "--mcp"], enabled: true };
    config.mcp = { marksweep: server, ...config.mcp };
  },
  "experimental.chat.messages.transform": async (_, output) => {
    const { messages, places } = read(output.messages);
    if (!messages.length) return;
    const kept = await fit(output.messages[0].info.sessionID, { messages }, "openai_chat");
    if (kept) write(output.messages, places, kept);
  },
});
