// Asks a model server through a provider's official SDK and prints what it understood, one line for each prompt, in one shape
// for all providers: node ask.mjs chat|responses|messages|gemini URL stream|whole PROMPT...
import OpenAI from 'openai'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'

const [format, url, mode, ...prompts] = process.argv.slice(2)
const stream = mode === 'stream'
const schema = { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] }
const nothing = () => ({ text: '', thought: '', refusal: '', calls: [], stop: null, usage: {} })
let prompt
let heard

const ways = {
  async chat() {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'key', maxRetries: 3 })
    const request = {
      model: 'm', stream, messages: [{ role: 'user', content: prompt }],
      ...(stream ? { stream_options: { include_usage: true } } : {}),
      tools: [{ type: 'function', function: { name: 'read', parameters: schema } }],
    }
    const usage = (u) => ({
      input: u.prompt_tokens, output: u.completion_tokens, cached: u.prompt_tokens_details.cached_tokens,
      reasoning: u.completion_tokens_details.reasoning_tokens,
    })
    const take = (message) => {
      heard.text += message.content ?? ''
      heard.refusal += message.refusal ?? ''
      heard.thought += message.reasoning_content ?? ''
    }
    if (!stream) {
      const answer = await client.chat.completions.create(request)
      const [choice] = answer.choices
      take(choice.message)
      heard.calls = (choice.message.tool_calls ?? []).map((c) => ({ name: c.function.name, args: JSON.parse(c.function.arguments) }))
      heard.stop = choice.finish_reason
      heard.usage = usage(answer.usage)
      return
    }
    const calls = []
    for await (const chunk of await client.chat.completions.create(request)) {
      if (chunk.usage) heard.usage = usage(chunk.usage)
      for (const choice of chunk.choices) {
        take(choice.delta)
        for (const call of choice.delta.tool_calls ?? []) {
          calls[call.index] ??= { name: call.function.name, text: '' }
          calls[call.index].text += call.function.arguments
        }
        heard.stop = choice.finish_reason ?? heard.stop
      }
    }
    heard.calls = calls.map((c) => ({ name: c.name, args: JSON.parse(c.text) }))
  },

  async responses() {
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'key', maxRetries: 3 })
    const request = {
      model: 'm', input: [{ role: 'user', content: prompt }],
      tools: [{ type: 'function', name: 'read', parameters: schema, strict: false }],
    }
    // The helper puts the answer together from the deltas and checks their order.
    const answer = stream ? await client.responses.stream(request).finalResponse() : await client.responses.create(request)
    for (const item of answer.output) {
      if (item.type === 'reasoning') heard.thought += item.summary.map((s) => s.text).join('')
      if (item.type === 'function_call') heard.calls.push({ name: item.name, args: JSON.parse(item.arguments) })
      for (const part of item.type === 'message' ? item.content : []) {
        heard.text += part.text ?? ''
        heard.refusal += part.refusal ?? ''
      }
    }
    heard.stop = answer.incomplete_details?.reason ?? answer.status
    heard.usage = {
      input: answer.usage.input_tokens, output: answer.usage.output_tokens,
      cached: answer.usage.input_tokens_details.cached_tokens, reasoning: answer.usage.output_tokens_details.reasoning_tokens,
    }
  },

  async messages() {
    const client = new Anthropic({ baseURL: url, apiKey: 'key', maxRetries: 3 })
    const request = {
      model: 'm', max_tokens: 1000, messages: [{ role: 'user', content: prompt }],
      tools: [{ name: 'read', input_schema: schema }],
    }
    const answer = stream ? await client.messages.stream(request).finalMessage() : await client.messages.create(request)
    for (const block of answer.content) {
      if (block.type === 'text') heard.text += block.text
      if (block.type === 'thinking' && block.signature) heard.thought += block.thinking
      if (block.type === 'tool_use') heard.calls.push({ name: block.name, args: block.input })
    }
    heard.stop = answer.stop_reason
    const u = answer.usage
    heard.usage = { input: u.input_tokens + u.cache_read_input_tokens, output: u.output_tokens, cached: u.cache_read_input_tokens }
    if (!stream) {
      const counted = await client.messages.countTokens({ model: 'm', messages: request.messages })
      heard.counted = counted.input_tokens > 0
    }
  },

  async gemini() {
    const client = new GoogleGenAI({ apiKey: 'key', httpOptions: { baseUrl: url, retryOptions: { attempts: 4 } } })
    const request = {
      model: 'm', contents: [{ role: 'user', parts: [{ text: prompt }] }],
      config: { tools: [{ functionDeclarations: [{ name: 'read', parametersJsonSchema: schema }] }] },
    }
    const take = (answer) => {
      const [candidate] = answer.candidates
      for (const part of candidate.content.parts) {
        if (part.thought) heard.thought += part.text
        else if (part.functionCall) heard.calls.push({ name: part.functionCall.name, args: part.functionCall.args })
        else heard.text += part.text
      }
      heard.stop = candidate.finishReason ?? heard.stop
      const u = answer.usageMetadata
      heard.usage = {
        input: u.promptTokenCount, output: u.candidatesTokenCount + (u.thoughtsTokenCount ?? 0),
        cached: u.cachedContentTokenCount ?? 0, reasoning: u.thoughtsTokenCount ?? 0,
      }
    }
    if (stream) for await (const chunk of await client.models.generateContentStream(request)) take(chunk)
    else take(await client.models.generateContent(request))
  },
}

for (prompt of prompts) {
  heard = nothing()
  try {
    await ways[format]()
    console.log(JSON.stringify(heard))
  } catch (error) {
    console.log(JSON.stringify({ failed: String(error.message ?? error), status: error.status ?? null }))
  }
}
