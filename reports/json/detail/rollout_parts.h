// What a step of reinforcement learning looks like in JSON.
#pragma once

#include "model/result/result.h"
#include "reports/json/detail/fields.h"

namespace plumbline::reports {

void rollout_memory_fields(auto& to, const model::RolloutMemory& of) {
  to("training_bytes", "bytes that the fullest GPU that trains needs at least, of a colocated engine that sleeps, too",
     of.training_bytes);
  to("generation_bytes", "bytes of the fullest GPU that generates, with its cache and what of the training stays there",
     of.generation_bytes);
  to("capacity_bytes", "bytes of a GPU", of.capacity_bytes);
  to("host_bytes", "bytes in the memory of the fullest host", of.host_bytes);
  to("host_capacity_bytes", "bytes of memory of a host; null: not known",
     where(of.host_capacity_bytes > 0, of.host_capacity_bytes));
  to("fits", "whether all of these fit", of.fits);
}

void rollout_fields(auto& to, const model::RolloutResult& of) {
  to("algorithm", "grpo, ppo or dapo", of.algorithm);
  to("placement", "colocated, split or asynchronous", of.placement);
  to("step_s", "seconds of a step", of.step_s);
  to("parts", "the parts of a step, which follow each other; asynchronous ones of engines and training run at once",
     List(of.parts, [](auto& part_to, const model::RolloutPart& part) {
       part_to("name", "what is done", part.name);
       part_to("pool", "which GPUs have it: engines, training, or all; hosts: none", part.pool);
       part_to("seconds", "seconds of the part", part.seconds);
     }));
  to("generation_tail_s", "seconds of generation after nine of ten answers have ended, in the mean of engines",
     of.tail_s);
  to("longest_answer_tokens", "tokens of a step's longest answer, in the mean of steps", of.longest_tokens);
  to("cut_share", "share of the answers that reach the longest length", of.cut_share);
  to("engines_idle_share", "share of the step in which a GPU that generates has no work", of.engines_idle);
  to("training_idle_share", "share of the step in which a GPU that trains has no work", of.training_idle);
  to("tokens_per_s", "prompts and answers that are trained on, over the step", of.tokens_per_s);
  to("tokens_per_s_per_gpu", "the same of a GPU", of.tokens_per_s_per_gpu);
  to("generated_tokens_per_s", "tokens of answers over the time of generation", of.generated_tokens_per_s);
  to("gpus", "GPUs of both pools", of.gpus);
  to("engine_gpus", "GPUs that generate", of.engine_gpus);
  to("training_gpus", "GPUs that train", of.training_gpus);
  to("instances", "engines", of.instances);
  to("requests_at_once", "answers for which an engine has space at once", of.requests_at_once);
  to("updates", "updates of the policy in a step", of.updates);
  to("weights_bytes", "bytes of the policy in the engine's format, which each step sends", of.weights_bytes);
  to("memory", "whether both halves fit", Object([&of](auto& part_to) { rollout_memory_fields(part_to, of.memory); }));
  to("step_usd", "USD of a step; null: no price is known", of.step_usd);
  to("run", "null without rollout.steps", Maybe(of.run, [](auto& run_to, const model::RunCost& run) {
       run_to("steps", "steps of reinforcement learning", run.steps);
       run_to("days", "days of the run", run.days);
       run_to("gpu_hours", "hours of one GPU", run.gpu_hours);
       run_to("cost_usd", "USD of the run; null: no price is known", run.cost_usd);
     }));
  to("interval_s", "seconds of the step; null: no interval was asked for", of.interval_s);
}

}  // namespace plumbline::reports
