// A step of reinforcement learning as text.
#include <fmt/format.h>

#include <string>

#include "model/result/middle.h"
#include "model/result/result.h"
#include "reports/text/step/sections.h"
#include "reports/text/step/summary.h"

namespace plumbline::reports {

namespace {

std::string headline_of_rollout(const model::RolloutResult& rollout) {
  const model::RolloutResult middle = model::middle_rollout(rollout);
  const auto& interval = rollout.interval_s;
  std::string out = figure_line("step time", duration(middle.step_s),
                                interval ? fmt::format("8 of 10 take {}", seconds_span(*interval)) : "") +
                    figure_line("tokens/s", grouped(middle.tokens_per_s),
                                grouped(middle.tokens_per_s_per_gpu) + " per GPU, of those trained on");
  if (middle.step_usd) out += figure_line("cost of a step", dollars(*middle.step_usd, 2), "");
  if (interval) out += figure_line("from components", duration(rollout.step_s), "divided below");
  return out + '\n';
}

std::string parts_of_rollout(const model::RolloutResult& rollout) {
  Table table("part | GPUs | >time | >share");
  for (const model::RolloutPart& part : rollout.parts)
    table.row(part.name, part.pool, duration(part.seconds), percent(part.seconds / rollout.step_s));
  table.add_rule();
  table.row("step", "", duration(rollout.step_s), "");
  return table.to_string();
}

std::string rates_of_rollout(const model::RolloutResult& rollout) {
  Table table("quantity | > | ");
  const auto row = [&table](const char* name, const std::string& value, const std::string& note) {
    table.row(name, value, note);
  };
  row("generated tokens/s", grouped(rollout.generated_tokens_per_s), "while engines generate");
  row("tail of the generation", duration(rollout.tail_s), "after nine of ten answers");
  row("longest answer", grouped(rollout.longest_tokens), fmt::format("tokens; {} are cut", percent(rollout.cut_share)));
  row("engines", grouped(rollout.instances),
      fmt::format("of {} GPUs, {} answers at once", rollout.engine_gpus / rollout.instances,
                  grouped(rollout.requests_at_once)));
  row("idle, GPUs that generate", percent(rollout.engines_idle), "");
  row("idle, GPUs that train", percent(rollout.training_idle), "");
  return table.to_string();
}

}  // namespace

std::string rollout_memory_text(const model::RolloutMemory& memory) {
  std::string host = fmt::format("{} GB", gigabytes(memory.host_bytes));
  if (memory.host_capacity_bytes > 0) host += fmt::format(" of {} GB", gigabytes(memory.host_capacity_bytes));
  return paragraph(
      fmt::format("Memory of the fullest GPU: {} GB in training and {} GB in generation, of {} GB; of a "
                  "host {}. It {}.",
                  gigabytes(memory.training_bytes), gigabytes(memory.generation_bytes),
                  gigabytes(memory.capacity_bytes), host, memory.fits ? "fits" : "does not fit"));
}

std::string rollout_section(const model::RolloutResult& rollout, Style style) {
  std::string out =
      heading(fmt::format("A step of reinforcement learning ({}, {})", rollout.algorithm, rollout.placement), style);
  out += headline_of_rollout(rollout) + parts_of_rollout(rollout) + '\n' + rates_of_rollout(rollout) +
         rollout_memory_text(rollout.memory);
  if (const auto run = model::middle_rollout(rollout).run)
    out += paragraph(fmt::format("{} such steps take {} days and {} GPU-hours{}.", grouped(run->steps),
                                 number(run->days), grouped(run->gpu_hours),
                                 run->cost_usd ? fmt::format(", ${}", grouped(*run->cost_usd)) : ""));
  return out;
}

}  // namespace plumbline::reports
