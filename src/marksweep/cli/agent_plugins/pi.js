// marksweep for pi: requests fit the limit, and the model can recall what was left out.
import { fit, recall } from "./fit.js";

const LISTS = ["messages", "input", "contents"];
const DIALECTS = {
  "anthropic-messages": "anthropic",
  "google-generative-ai": "gemini",
  "openai-completions": "openai_chat",
  "openai-responses": "openai_responses",
};

export default function (pi) {
  pi.on("before_provider_request", async (event, context) => {
    const request = event.payload;
    const list = LISTS.find((name) => Array.isArray(request?.[name]));
    if (!list) return undefined;
    const kept = await fit(context.sessionManager.getSessionId(), request, DIALECTS[context.model?.api]);
    if (!kept) return undefined;
    return { ...request, [list]: kept.map((each) => each.message ?? request[list][each.at]) };
  });
  pi.registerTool({
    name: "recall",
    label: "recall",
    description: 'Return what marksweep left out: by the id in its line, such as "m6", or by words.',
    parameters: { type: "object", properties: { what: { type: "string" } }, required: ["what"] },
    async execute(_id, { what }) {
      return { content: [{ type: "text", text: await recall(what) }], details: {} };
    },
  });
}
