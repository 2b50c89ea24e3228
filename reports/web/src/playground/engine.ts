// A predictor in a worker. Of questions of a kind that wait, only the newest is asked.
import { bytesOf } from "../base64";
import type { Reply, Request } from "./protocol";

type Kind = Exclude<Request["kind"], "start">;
type Ask = { [K in Kind]: Omit<Extract<Request, { kind: K }>, "id"> }[Kind];
type Answered = (answer: unknown, seconds: number) => void;

const text = (id: string): string => document.getElementById(id)?.textContent ?? "";

/** Compiles the predictor of the page while it is unpacked. */
export function compile(): Promise<WebAssembly.Module> {
  const bytes = new Blob([bytesOf(text("module"))]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compileStreaming(new Response(bytes, { headers: { "Content-Type": "application/wasm" } }));
}

let script = "";
const scriptUrl = (): string =>
  (script ||= URL.createObjectURL(new Blob([text("engine"), "\n", text("worker")], { type: "text/javascript" })));

export class Engine {
  private worker: Worker | null = null;
  private readonly waiting = new Map<string, { ask: Ask; answered: Answered }>();
  private asked: { id: number; answered: Answered } | null = null;
  private next = 1;

  constructor(private readonly module: Promise<WebAssembly.Module>) {}

  /** Starts the worker, as the first question does. */
  start(): Worker {
    if (this.worker) return this.worker;
    const worker = new Worker(scriptUrl());
    worker.onmessage = (event: MessageEvent<Reply>) => this.receive(event.data);
    void this.module.then((module) => worker.postMessage({ kind: "start", module }));
    return (this.worker = worker);
  }

  ask(ask: Ask, answered: Answered): void {
    this.waiting.set(ask.kind, { ask, answered });
    this.send();
  }

  /** Drops what was not asked yet, and ends the worker where it is busy: its core is free for others at once. */
  forget(): void {
    this.waiting.clear();
    if (!this.asked) return;
    this.asked = null;
    this.worker?.terminate();
    this.worker = null;
  }

  private send(): void {
    const first = this.waiting.entries().next();
    if (this.asked || first.done) return;
    const [kind, { ask, answered }] = first.value;
    this.waiting.delete(kind);
    this.asked = { id: this.next++, answered };
    this.start().postMessage({ ...ask, id: this.asked.id });
  }

  private receive(reply: Reply): void {
    if (reply.id !== this.asked?.id) return;
    const { answered } = this.asked;
    this.asked = null;
    answered(JSON.parse(reply.text), reply.seconds);
    this.send();
  }
}
