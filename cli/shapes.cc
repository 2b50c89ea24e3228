#include "cli/detail/shapes.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/data.h"
#include "model/architecture/load_architecture.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/program/compile.h"
#include "real/measure/kernel_case/kernel_case.h"

namespace plumbline::cli {
namespace {

std::string line_of(const model::KernelShape& shape, const std::string& model) {
  std::string line = fmt::format("{} name={}/{}", shape.op, model, shape.name);
  if (!shape.phase.empty()) line += " phase=" + shape.phase;
  if (!shape.format.empty()) line += " format=" + shape.format;
  for (const auto& [name, extent] : shape.extents) {
    const bool usual = name == "groups" && extent == 1;
    if (!usual) line += fmt::format(" {}={}", name, extent);
  }
  return line;
}

// Returns the smallest plan of a model.
model::Result<model::Plan> plan_around(const std::string& config, std::int64_t sequence_length,
                                       const std::vector<std::string>& overrides) {
  model::Plan plan;
  plan.model.config = config;
  plan.cluster.topology = "none";
  plan.cluster.gpus = 1;
  plan.batch.sequence_length = sequence_length;
  plan.batch.micro_batch_size = 1;
  plan.batch.global_batch_size = 1;
  return model::read_plan(model::to_toml(plan), config, overrides);
}

model::Result<model::KernelShapes> shapes_of(const model::Plan& plan, const model::Architecture& architecture) {
  return model::compile(plan, architecture, TRY(model::make_layout(plan, architecture))).map(model::kernel_shapes);
}

}  // namespace

std::string shapes_text(const model::KernelShapes& shapes, const std::string& model) {
  std::string text;
  for (const model::KernelShape& shape : shapes.shapes) {
    const std::string line = line_of(shape, model);
    const auto measured = real::parse_kernel_case(line);
    const std::string problem = measured ? "" : measured.error().message;
    const std::string often = shape.op == "adamw" ? "per step" : "per micro-batch";
    text += fmt::format("{}{}  # {} {}{}\n", problem.empty() ? "" : "# ", line, shape.count, often,
                        problem.empty() ? "" : "; not measured: " + problem);
  }
  return text +
         fmt::format("# not among the kernels that are measured by themselves: {}\n", fmt::join(shapes.others, ", "));
}

model::Result<std::string> show_shapes(const std::string& name, std::int64_t sequence_length,
                                       const std::vector<std::string>& overrides) {
  const auto config = resolve_model("", name);
  const auto plan_file = resolve(Shipped::plan, name);
  const bool is_plan = plan_file && (!config || name.ends_with(".toml"));
  if (!is_plan && !config) return tl::unexpected(config.error());
  const auto plan =
      TRY(is_plan ? model::load_plan(*plan_file, overrides) : plan_around(*config, sequence_length, overrides));
  const auto architecture = TRY(resolve_model(plan.file, plan.model.config).and_then([&plan](const std::string& path) {
    return model::load_architecture_of(plan, path);
  }));
  const auto shapes = TRY(shapes_of(plan, architecture));
  const std::string where =
      is_plan ? "plan " + std::filesystem::path(plan.file).stem().string() : "the plan's defaults";
  return fmt::format("# {} by {}, on one rank; {} x {} tokens per micro-batch\n", architecture.name, where,
                     plan.batch.micro_batch_size, plan.batch.sequence_length) +
         shapes_text(shapes, architecture.name);
}

}  // namespace plumbline::cli
