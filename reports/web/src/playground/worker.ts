// A worker: the predictor, and the questions that the page asks it. The predictor's script stands before this one.
import type { Question, Reply, Request } from "./protocol";

interface Engine {
  simulate(plan: string, changes: string[], draws: number): string;
  pipeline(plan: string, changes: string[]): string;
  delete(): void;
}
interface Module {
  Engine: new () => Engine;
  FS: { mkdir(path: string): void; writeFile(path: string, text: string): void };
}
type Receive = (instance: WebAssembly.Instance) => void;
interface Options {
  instantiateWasm(imports: WebAssembly.Imports, receive: Receive): object;
}
declare const plumbline: (options: Options) => Promise<Module>;
const scope = self as unknown as { onmessage: (event: MessageEvent<Request>) => void; postMessage(reply: Reply): void };

class Predictor {
  private engine: Engine;
  private files = "{}";

  constructor(private readonly module: Module) {
    module.FS.mkdir("/input");
    this.engine = new module.Engine();
  }

  answer(request: Exclude<Request, { kind: "start" }>): string {
    const { plan, changes } = request.question;
    this.write(request.question);
    if (request.kind === "pipeline") return this.engine.pipeline(plan, changes);
    return this.engine.simulate(plan, changes, request.draws);
  }

  /** An engine reads a file once, so that other files need another engine. */
  private write({ files }: Question): void {
    const all = JSON.stringify(files);
    if (all === this.files) return;
    this.files = all;
    for (const [name, text] of Object.entries(files)) this.module.FS.writeFile(`/input/${name}`, text);
    this.engine.delete();
    this.engine = new this.module.Engine();
  }
}

async function start(compiled: WebAssembly.Module): Promise<Predictor> {
  const instantiateWasm = (imports: WebAssembly.Imports, receive: Receive): object => {
    void WebAssembly.instantiate(compiled, imports).then(receive);
    return {};
  };
  return new Predictor(await plumbline({ instantiateWasm }));
}

let begin: (compiled: WebAssembly.Module) => void;
const compiled = new Promise<WebAssembly.Module>((resolve) => (begin = resolve));
let started = compiled.then(start);

// A predictor that has stopped, as one without memory does, answers nothing more: another one takes its place.
function stopped(error: unknown): string {
  started = compiled.then(start);
  return JSON.stringify({ error: { kind: "input", key: "", line: 0, message: `the predictor stopped: ${error}`, hint: "try a smaller plan, or the command" } });
}

scope.onmessage = async ({ data: request }) => {
  if (request.kind === "start") return begin(request.module);
  const begun = performance.now();
  const text = await started.then((predictor) => predictor.answer(request)).catch(stopped);
  scope.postMessage({ id: request.id, text, seconds: (performance.now() - begun) / 1e3 });
};
