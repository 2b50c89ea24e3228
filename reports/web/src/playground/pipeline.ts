// The slots of all pipeline ranks over a step, drawn on a canvas.
import { h } from "../dom";
import { duration } from "../format";
import { legend, legendItem } from "../parts/bars";
import { slotWords } from "../parts/slots";
import type { Page } from "../view";
import type { Slots } from "./protocol";

const rowHeight = 18;
const labelWidth = 34;
const axisHeight = 20;

/** "FB" of "FB12": the kind of a slot. */
function kindOf(name: string): string {
  const kind = /^[A-Z]+/.exec(name)?.[0] ?? "";
  return kind in slotWords ? kind : "other";
}

export class Pipeline {
  readonly root = h("div", {});
  private readonly canvas = h("canvas", { role: "img" });
  private readonly key = h("div", {});
  private slots: Slots | null = null;

  constructor(private readonly page: Page) {
    this.root.append(this.canvas, this.key);
    page.themed(() => this.draw());
    window.addEventListener("resize", () => this.draw());
    this.canvas.addEventListener("pointermove", (event) => (this.canvas.title = this.at(event.offsetX, event.offsetY)));
  }

  show(slots: Slots): void {
    this.slots = slots;
    const seen = new Set(slots.names.map(kindOf));
    this.key.replaceChildren(legend(...Object.entries(slotWords).filter(([kind]) => seen.has(kind)).map(([kind, text]) => legendItem(`slot-${kind}`, text))));
    this.canvas.setAttribute("aria-label", `${slots.rank.length} slots on ${slots.ranks} pipeline ranks in ${duration(slots.end_s)}`);
    this.draw();
  }

  private draw(): void {
    const slots = this.slots;
    const width = this.root.clientWidth;
    if (!slots || width === 0) return;
    const scale = window.devicePixelRatio || 1;
    const height = slots.ranks * rowHeight + axisHeight;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    this.canvas.style.cssText = `width:${width}px;height:${height}px;display:block`;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.scale(scale, scale);
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = this.page.color("soft");
    for (let rank = 0; rank < slots.ranks; ++rank) context.fillText(String(rank), 4, rank * rowHeight + 13);
    const perSecond = (width - labelWidth) / slots.end_s;
    context.fillStyle = this.page.color("idle");
    for (let rank = 0; rank < slots.ranks; ++rank) context.fillRect(labelWidth, rank * rowHeight, width - labelWidth, rowHeight - 2);
    const colors = slots.names.map((name) => this.page.color(`slot-${kindOf(name)}`));
    for (let i = 0; i < slots.rank.length; ++i) {
      const length = slots.duration_s[i] * perSecond;
      context.fillStyle = colors[slots.name[i]];
      const gap = length > 3 ? 0.6 : 0;
      context.fillRect(labelWidth + slots.start_s[i] * perSecond, slots.rank[i] * rowHeight, length - gap, rowHeight - 2);
    }
    context.fillStyle = this.page.color("soft");
    context.fillText("0 s", labelWidth, height - 4);
    context.textAlign = "right";
    context.fillText(duration(slots.end_s), width, height - 4);
  }

  /** What runs at a place, in words. */
  private at(x: number, y: number): string {
    const slots = this.slots;
    if (!slots) return "";
    const time = ((x - labelWidth) / (this.root.clientWidth - labelWidth)) * slots.end_s;
    const rank = Math.floor(y / rowHeight);
    for (let i = 0; i < slots.rank.length; ++i)
      if (slots.rank[i] === rank && slots.start_s[i] <= time && time < slots.start_s[i] + slots.duration_s[i])
        return `${slots.names[slots.name[i]]}, rank ${rank}, micro-batch ${slots.micro_batch[i]}: ${duration(slots.duration_s[i])}`;
    return "";
  }
}
