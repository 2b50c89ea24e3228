// The views, a line each. A result whose kind none of them draws is shown as names and values.
import { outputOf, type Result } from "../result";
import type { View } from "../view";
import { any } from "./any";
import { campaign } from "./campaign";
import { chunk } from "./chunk";
import { compare } from "./compare";
import { memory } from "./memory";
import { plan } from "./plan";
import { deployments } from "./plan_deployments";
import { rollouts } from "./plan_rollouts";
import { schedule } from "./schedule";
import { serve } from "./serve";
import { step } from "./step";
import { sweep } from "./sweep";
import { trace } from "./trace";
import { validate } from "./validate";

const views: View[] = [
  campaign,
  chunk,
  compare,
  deployments,
  memory,
  plan,
  rollouts,
  schedule,
  serve,
  step,
  sweep,
  trace,
  validate,
];

export const viewOf = (result: Result): View => views.find((view) => view.kinds.includes(outputOf(result))) ?? any;
