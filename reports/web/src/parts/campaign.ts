// A training with its failures: what its time goes into, in the words of the command.
import type { Json } from "../result";
import type { Part } from "./bars";

const uses: [key: string, words: string, color: string][] = [
  ["lost_s", "steps done again", "c5"],
  ["checkpoint_s", "checkpoints", "c2"],
  ["detect_s", "until a failure is found", "c4"],
  ["restart_s", "restarts", "c3"],
  ["wait_s", "waiting for nodes", "c6"],
  ["slow_s", "slower steps", "c7"],
  ["planned_s", "planned stops and checks", "c8"],
];

/** Returns the seconds that are no step that counts, by what they go into. */
export const lostParts = ({ mean_time_s: times }: Json): Part[] => uses.map(([key, name, color]) => ({ name, value: times[key], color }));
