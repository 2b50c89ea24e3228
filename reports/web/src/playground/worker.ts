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

let begin: (predictor: Promise<Predictor>) => void;
const started = new Promise<Predictor>((resolve) => (begin = resolve));

scope.onmessage = ({ data: request }) => {
  if (request.kind === "start") return begin(start(request.module));
  void started.then((predictor) => {
    const start = performance.now();
    const text = predictor.answer(request);
    scope.postMessage({ id: request.id, text, seconds: (performance.now() - start) / 1e3 });
  });
};
